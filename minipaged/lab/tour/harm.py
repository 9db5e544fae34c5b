"""Lab: see it break, and be sure that it broke.

A lesson shows what goes wrong without a mechanism. If one day nothing goes wrong any
more, the lesson lies; so these helpers fail when no harm is done.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def expect_harm(what: str, *, right: Any, wrong: Any) -> None:
    """Print what should be and what the flawed version gives; fail if they are equal.

    Raises AssertionError if nothing broke.
    """
    print(f"{what}\n    should be  {right}\n    but is     {wrong}")
    # As text, for NaN differs from itself, and tensors have no one answer.
    assert str(right) != str(wrong), f"nothing broke: {what}"


@contextmanager
def expect_error(kind: type[Exception]) -> Iterator[None]:
    """Run what must fail with `kind`, and print the message.

    Raises AssertionError if nothing fails; another kind of error passes through.
    """
    try:
        yield
    except kind as error:
        print(f"{type(error).__name__}: {error}")
    else:
        raise AssertionError(f"nothing broke: expected {kind.__name__}")
