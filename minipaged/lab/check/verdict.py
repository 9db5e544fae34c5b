"""Lab: what every check does: try the reader's code, and print what became of it."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import wraps
from inspect import signature
from typing import Any

# What to say of an error beside its words; by its kind, or by some of these words.
Hints = Mapping[type[Exception] | str, str]


class Rejected(Exception):
    """An attempt is wrong; the message is the state that shows it."""


class Attempt:
    """The reader's function or class; every failure says what it was called with."""

    def __init__(self, function: Callable[..., Any]):
        self.function = function
        self.name = getattr(function, "__name__", "your attempt")
        self.num_cases = 0

    def __call__(self, *arguments: Any, hints: Hints | None = None) -> Any:
        """Call it with copies of the arguments, so that it cannot spoil the case."""
        return self.shared(*deepcopy(arguments), hints=hints)

    def shared(self, *arguments: Any, hints: Hints | None = None) -> Any:
        """Call it with the arguments themselves, which it is meant to change."""
        self.num_cases += 1
        call = self.call(*arguments)
        return attempted(call, self.function, *arguments, hints=hints)

    def or_refused(
        self, kind: type[Exception], *arguments: Any, hints: Hints | None = None
    ) -> tuple[Any, Any]:
        """As `shared`: what it returns, and the error if it refused with one."""
        try:
            return self.shared(*arguments, hints=hints), None
        except Rejected as rejected:
            if isinstance(rejected.__cause__, kind):
                return None, rejected.__cause__
            raise

    def call(self, *arguments: Any) -> str:
        """The call as text, each argument with its name."""
        function = getattr(self.function, "fn", self.function)  # inside of a kernel
        try:
            names = [f"{name}=" for name in signature(function).parameters]
        except (TypeError, ValueError):
            names = []
        names += [""] * len(arguments)
        values = (a + short(b) for a, b in zip(names, arguments, strict=False))
        return f"{self.name}({', '.join(values)})"


def attempted(
    call: str, function: Callable[..., Any], *arguments: Any, hints: Hints | None = None
) -> Any:
    """Run the reader's code; whatever it raises by mistake rejects it."""
    try:
        return function(*arguments)
    except (NotImplementedError, Rejected):
        raise
    except Exception as error:
        told = [hint for key, hint in (hints or {}).items() if _is_meant(key, error)]
        said = f"{call} raised {type(error).__name__}: {error}"
        raise Rejected("; ".join([said, *told[:1]])) from error


def _is_meant(key: type[Exception] | str, error: Exception) -> bool:
    return key in str(error) if isinstance(key, str) else isinstance(error, key)


def exercise(
    check: Callable[[Attempt], Callable[[], str] | None],
) -> Callable[[Callable[..., Any]], None]:
    """Make a check of a function that raises Rejected for a wrong attempt.

    It may return a function: what can be done with a right attempt, in words.
    """

    @wraps(check)
    def checked(attempt: Callable[..., Any]) -> None:
        tried = Attempt(attempt)
        name = tried.name
        try:
            if not callable(attempt):
                raise Rejected(f"expected a function or class, got {short(attempt)}")
            reward = check(tried)
        except NotImplementedError as error:
            if str(error):  # torch, say; the stub's has no words
                print(f"✗ {name}: rejected\n  NotImplementedError: {error}")
            else:
                print(f"○ {name}: not attempted yet; write it, run both cells again")
        except Rejected as found:
            print(f"✗ {name}: rejected\n  {found}")
        except Exception as error:  # it gave something that no check expects
            print(f"✗ {name}: rejected\n  {type(error).__name__}: {error}")
        else:
            print(f"✓ {name}: accepted after {tried.num_cases} cases")
            if reward:
                print(f"  {reward()}")

    return checked


def many(number: int, what: str) -> str:
    """A number of things, as text."""
    return f"{number:,} {what}{'s' * (number != 1)}"


def short(value: Any) -> str:
    """A value as text that fits into a line; of a tensor, its shape."""
    if hasattr(value, "shape"):
        return f"tensor{list(value.shape)}"
    text = f"{value:.6g}" if isinstance(value, float) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
