"""Appendix F: what requests say, as a script gives it: no model is asked."""

from collections.abc import Sequence
from random import Random

from minipaged.scheduling.breed import breed
from minipaged.scheduling.next_works import NextWorks
from minipaged.scheduling.request import Request


class Script(NextWorks):
    """One answer, or several samples of one prompt, each of a known length.

    The tokens are made up. All tokens of sample i are -1 - i. So they are no tokens of
    prompts, and equal prompts have equal answers, as under greedy decoding.
    """

    def __init__(self, lengths: Sequence[int]):
        """`lengths`: how many tokens each sample says, 1 or more."""
        if not lengths or min(lengths) < 1:
            raise ValueError(f"an answer has 1 token or more, got {lengths=}")
        self.lengths = tuple(lengths)
        self.num_said = 0  # tokens of the longest answer so far

    def request(self, prompt: list[int]) -> Request:
        """A request that gets these answers."""
        return Request(prompt, max(self.lengths), self, len(self.lengths))

    def say(self, request: Request) -> bool:
        """Append a token to each living answer; has the last of them ended?

        To be called once for each step that computes logits of the request.
        """
        self.num_said += 1
        answers = request.answers
        if self.num_said == 1:
            for _ in self.lengths[1:]:
                request.fork(answers[0])
        is_over = True
        token = 0
        for answer, length in zip(answers, self.lengths, strict=True):
            token -= 1
            if answer.finish_reason is None:
                answer.append(token)
                if self.num_said == length:
                    answer.end("length")
                else:
                    is_over = False
        return is_over


class BeamScript(Script):
    """Beam search: each next beam continues one of the beams, drawn at random.

    All beams are drawn alike, with replacement: the neutral model of population
    genetics (Wright and Fisher's), because nothing says which beam is better. A beam
    that nobody continues is dropped; a beam that several continue is forked.
    """

    def __init__(self, width: int, length: int, seed: int = 0):
        """`width` beams of `length` tokens; `seed` says who continues whom."""
        super().__init__([length] * width)
        self._chance = Random(seed)

    def request(self, prompt: list[int]) -> Request:
        """A request whose beams may be dropped: only its prompt is published."""
        request = super().request(prompt)
        request.drops_sequences = True
        return request

    def say(self, request: Request) -> bool:
        """Let each of the next beams continue a beam by a token; is it the last?"""
        self.num_said += 1
        width = len(self.lengths)
        parents = request.answers if self.num_said > 1 else request.answers * width
        chosen = self._chance.choices(range(width), k=width)
        children = [(parent, -1 - place) for place, parent in enumerate(chosen)]
        request.answers = breed(request, parents, children)
        is_over = self.num_said == self.lengths[0]
        if is_over:
            request.end("length")
        return is_over
