"""Appendix E: guesses at the next tokens, and forks that guess differently."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from minipaged.scheduling.next_works import NextWorks
from minipaged.scheduling.plan import Work

if TYPE_CHECKING:
    from minipaged.scheduling.request import Request
    from minipaged.scheduling.sequence import Sequence


class GuessedWorks(NextWorks):
    """What a request computes next if its sequences guess how their texts go on.

    A sequence that guesses computes its newest token and its guesses in one step, with
    the logits of all of them. Those of the newest token say whether the first guess is
    right, those of the first guess whether the second is, and so on. After the last
    right guess there is always another token, for which nothing had to be guessed.
    """

    num_guesses = 0  # of a branch, at most
    num_branches = 1  # the answer's own guesses, and those of its forks

    def next_works(self, request: "Request", limit: float) -> list[Work]:
        """The newest token of each living sequence, and the guesses after it.

        Guesses beyond `limit` are dropped, and the last forks are left out, if they
        are too many. For example, of 9 tokens 8 are computed, and 3 guesses follow:
        `start=8`, `stop=12` and `num_logits=4`.
        """
        works = super().next_works(request, limit + len(request.drafts))
        if not works:
            return []
        first = works[0].sequence
        if first in request.drafts:
            return []  # the answer is in a plan in flight
        num_tokens = len(first.tokens) + first.num_pending
        if len(works) == 1 and works[0].stop == num_tokens:
            return works  # as most while guessing pauses
        while len(works) > limit:
            works.pop()
        spare = limit - len(works)
        longer = []
        for work in works:
            sequence = work.sequence
            stop = min(sequence.num_tokens, work.stop + spare)
            sequence.drop_from(stop)
            spare -= stop - work.stop
            longer.append(work._replace(stop=stop, num_logits=stop - work.start))
        return longer

    def blocks_at_most(self, request: "Request", block_size: int) -> int:
        """As without guesses, and the blocks that forks do not share with the answer.

        A fork has its own copy of the last block, and blocks of its guesses. It never
        outlives a step.
        """
        of_fork = 1 + -(-self.num_guesses // block_size)
        forks = (self.num_branches - 1) * of_fork * bool(request.live)
        return super().blocks_at_most(request, block_size) + forks


def let_guess(
    request: "Request", answer: "Sequence", branches: list[list[int]]
) -> None:
    """Append guesses: the first branch to the answer, each other to a fork of it.

    The newest token of the answer has no room in the table yet.
    """
    newest = answer.tokens.pop()  # forks are made while all tokens have room
    forks = [request.fork(answer, is_draft=True) for _ in branches[1:]]
    for sequence, guesses in zip([answer, *forks], branches, strict=True):
        sequence.append(newest)
        sequence.guess(guesses)


def follow(
    branches: "list[Sequence]", token_at: "Callable[[Sequence, int], int]"
) -> "tuple[Sequence, list[int]]":
    """The next tokens, as long as a branch has guessed them, and one more.

    token_at(branch, place): the right token after the first `place` guesses of this
    branch. It is asked once for each token. Returns the branch that has guessed all
    tokens but the last, and the tokens. For example, two branches guess [5, 7] and
    [5, 8]. The right tokens are 5, 8 and 3: they follow from the second branch.
    """
    alive = branches
    tokens = []
    while alive:
        leader = alive[0]
        token = token_at(leader, len(tokens))
        alive = [
            branch
            for branch in alive
            if branch.tokens[branch.num_known + len(tokens) :][:1] == [token]
        ]
        tokens.append(token)
    return leader, tokens


def computed(branches: "Iterable[Sequence]") -> "list[Sequence]":
    """Those whose guesses were computed: there may have been no room for all."""
    return [one for one in branches if one.num_computed >= len(one.tokens)]


def settle(
    request: "Request", answer: "Sequence", branch: "Sequence", num_right: int
) -> None:
    """Keep the first `num_right` guesses of this branch, and their K and V.

    If the branch is a fork, its blocks become the answer's, and the answer gives its
    own blocks back. What is wrong is dropped: guesses, their room, and other forks.
    """
    if branch is not answer:
        guesses = branch.tokens[branch.num_known :]
        answer.accept()  # none of its own guesses
        answer.guess(guesses)
        answer.free()
        answer.table, branch.table = branch.table, None
    answer.accept(num_right)
    for draft in request.drafts:
        draft.end("dropped")  # the scheduler gives its blocks back
        if draft.num_uncomputed:  # but not of a fork that was left out of the plan
            draft.free()
    request.drafts = []
