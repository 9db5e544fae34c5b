"""Lab: what a replica tells of one request; and of a second time, only what is new."""

from dataclasses import dataclass, field

from minipaged.decoding.strategy import Output, TokenLogprob
from minipaged.serving.messages import Add, Begun, News


@dataclass
class Part:
    """News of one request."""

    accepted: bool = False
    restarted: bool = False
    begun: Begun | None = None
    tokens: list[int] = field(default_factory=list)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    ended: Output | None = None
    failed: tuple[int, str] | None = None  # status, message

    @property
    def is_last(self) -> bool:
        """Will nothing more come?"""
        return self.ended is not None or self.failed is not None

    def add(self, later: "Part") -> None:
        """What came after this part, so that both are told at once."""
        self.accepted |= later.accepted
        self.begun = self.begun or later.begun
        self.tokens += later.tokens
        self.logprobs += later.logprobs
        self.ended, self.failed = later.ended, later.failed


def parts_of(news: News) -> dict[int, Part]:
    """The news of a step, request by request."""
    parts: dict[int, Part] = {}

    def part(number: int) -> Part:
        return parts.setdefault(number, Part())

    for number in news.accepted:
        part(number).accepted = True
    for name in ("begun", "tokens", "logprobs", "ended", "failed"):
        for number, value in getattr(news, name).items():
            setattr(part(number), name, value)
    return parts


def news_of(number: int, part: Part) -> News:
    """The part, as a front's link reads it."""
    news = News()
    if part.accepted:
        news.accepted.append(number)
    if part.restarted:
        news.restarted.append(number)
    for name in ("begun", "tokens", "logprobs", "ended", "failed"):
        if value := getattr(part, name):
            getattr(news, name)[number] = value
    return news


class OtherAnswer(Exception):
    """A request that was sent again is answered with other tokens than before."""


class Told:
    """What a front was told of a request.

    If the request is sent again, its answer begins anew. A client who has seen a part
    of the answer must get the rest of the same answer: `new` leaves out what it knows,
    and compares. If the client has seen nothing, the front forgets the old answer.

    Attributes: tokens; is_over: will nothing more be told?
    """

    def __init__(self, add: Add):
        """Nothing was told yet."""
        self._add = add
        self._is_accepted = self._has_begun = self._restarts = False
        self.tokens: list[int] = []
        self.is_over = False
        self._num_heard = 0  # tokens, this time

    @property
    def may_be_sent_again(self) -> bool:
        """Would the client notice nothing?

        Either no token was seen; or each of them will come again, because the answer is
        greedy or has a seed.
        """
        if not self.tokens or not self._add.is_streamed:
            return True
        arguments = self._add.arguments
        is_drawn = arguments["generation_config"].do_sample
        return not is_drawn or arguments["seed"] is not None

    def begin_again(self) -> None:
        """The request is sent again: its answer begins with the first token."""
        self._num_heard = 0
        if not self._add.is_streamed:
            self.tokens = []
            self._restarts = True

    def new(self, part: Part) -> Part:
        """Of this part, what the front does not know yet.

        Raises OtherAnswer if a token is not the one that the client has seen.
        """
        known = self.tokens[self._num_heard : self._num_heard + len(part.tokens)]
        if part.tokens[: len(known)] != known:
            raise OtherAnswer
        self._num_heard += len(part.tokens)
        tokens = part.tokens[len(known) :]
        self.tokens += tokens
        new = Part(
            accepted=part.accepted and not self._is_accepted,
            restarted=self._restarts,
            begun=None if self._has_begun else part.begun,
            tokens=tokens,
            logprobs=part.logprobs[len(known) :],
            ended=part.ended,
            failed=part.failed,
        )
        self._is_accepted |= part.accepted
        self._has_begun |= part.begun is not None
        self._restarts = False
        self.is_over = part.is_last
        return new
