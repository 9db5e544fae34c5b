"""Appendix H: what rank 0 says, no other rank repeats."""

import sys
from types import TracebackType

from minipaged.errors import RankFailed
from minipaged.model.lifeline import Lifeline


def leave_to_rank_0(error: BaseException) -> BaseException:
    """The same error; rank 0 raises it, too."""
    error.is_said_by_rank_0 = True
    return error


def is_said_by_rank_0(error: BaseException) -> bool:
    """Does rank 0 raise this error, too?"""
    return getattr(error, "is_said_by_rank_0", False)


def say_once(lifeline: Lifeline) -> None:
    """If an error ends this rank, which is not rank 0, let it print what is news.

    An error of all ranks needs one traceback; a rank that ends with others, one line.
    """
    say = sys.excepthook

    def say_what_is_news(
        kind: type[BaseException],
        error: BaseException,
        trace: TracebackType | None,
    ) -> None:
        if is_said_by_rank_0(error):
            return
        if isinstance(error, RankFailed) and not lifeline.is_news:
            lifeline.say_farewell()
        else:
            say(kind, error, trace)

    sys.excepthook = say_what_is_news
