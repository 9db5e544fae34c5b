"""Lab: the candidates that a beam search ranks in each step, for a picture."""

from typing import Any

from transformers import PreTrainedTokenizerBase

from minipaged.decoding import beam
from minipaged.lab.plots.candidates import Candidate

Noted = list[tuple[list[str], list[Candidate]]]


def _shown(token: str) -> str:
    """A token's text; what is but a mark stands in quotes."""
    is_word = any(sign.isalnum() for sign in token)
    return token.replace(" ", "·") if is_word else f"“{token}”"


def watched_beams(
    tokenizer: PreTrainedTokenizerBase, eos: int
) -> tuple[type[beam.Beams], Noted]:
    """Beams that note, in each step, the texts of the beams and the candidates.

    eos: the token that ends a text. To be put in place of `beam.Beams`; what is noted
    comes into the list that is returned.
    """
    noted: Noted = []

    class Watched(beam.Beams):
        def apply(self, turn: Any, choice: beam.Candidates) -> None:
            parents = beam._parents(turn.request)
            texts = [str(tokenizer.decode(parent.new_tokens)) for parent in parents]
            rows = zip(*(part.tolist() for part in choice), strict=True)
            candidates = [
                Candidate(total, parent, _shown(name), token == eos)
                for total, parent, token in rows
                for name in [str(tokenizer.decode([token]))]
            ]
            noted.append((texts, candidates))
            super().apply(turn, choice)

    return Watched, noted
