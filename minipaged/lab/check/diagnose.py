"""Lab: one way to tell a mistake: what is found, what is right, why they differ."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from minipaged.lab.check.verdict import Attempt, Hints, Rejected, short

Case = Sequence[Any]  # the arguments of a call
Rule = Callable[..., Any]  # an answer to a case, right or wrong
Rules = Mapping[
    str, Rule | Sequence[Rule]
]  # what to say of answers that are wrong alike
Same = Callable[[Any, Any], bool]
# What to say of a mistake, and what tells it: the wrong answer that it gives, or a test
# of the answer, or whether it was made; or a function that makes this table.
Mistakes = Mapping[str, Any] | Callable[[], Mapping[str, Any]]


class Unlike(Rejected):
    """Something that has a name is not what it must be."""


def diagnose(
    what: str,
    found: Any,
    right: Any,
    mistakes: Mistakes = {},  # noqa: B006
    *,
    same: Same | None = None,
    write: Callable[[Any], str] | None = None,
) -> None:
    """Raise Rejected unless `found` is `right`, with both and the likeliest mistake.

    For example `slot of position 3: got 3, expected 19; that is the position`.
    same: whether two answers are alike. write: how they are written.
    """
    if (same or equal)(found, right):
        return
    said = why(found, mistakes, same)
    if found is None:
        said = said or "; is a return missing?"
        raise Unlike(f"{what}: got None, expected {(write or str)(right)}{said}")
    got, expected = map(write or short, (found, right))
    raise Unlike(f"{what}: got {got}, expected {expected}{said}")


def want(what: str, found: Any, is_it: bool) -> None:
    """Raise Rejected unless the answer is `what` it must be, such as "a list"."""
    if found is None:
        raise Rejected(f"got None, expected {what}; is a return missing?")
    if not is_it:
        raise Rejected(f"returned {short(found)}, expected {what}")


def why(found: Any, mistakes: Mistakes, same: Same | None = None) -> str:
    """What to say of the first mistake that fits, behind a semicolon; else nothing."""
    for said, wrong in (mistakes() if callable(mistakes) else mistakes).items():
        if isinstance(wrong, bool):
            is_it = wrong
        else:
            is_it = wrong(found) if callable(wrong) else (same or equal)(found, wrong)
        if is_it and said:
            return f"; {said}"
    return ""


def equal(found: Any, right: Any) -> bool:
    """Are they alike, as far as they can be compared?"""
    try:
        return bool(found == right)
    except Exception:  # a tensor of several numbers, say
        return False


def compare(
    attempt: Attempt,
    cases: Sequence[Case],
    right: Rule,
    mistakes: Rules,
    *,
    read: Callable[[Any], Any] | None = None,
    hints: Hints | None = None,
    **options: Any,
) -> None:
    """Ask about all cases; of a wrong attempt, all its answers tell the mistake.

    right: the right rule. mistakes: what to say, and the wrong rules that make it.
    read: takes an answer for what it means; raises Rejected if it is of no use.
    hints: what to say of errors. options: as of `tell`.
    """
    answers = ask_each(attempt, cases, right, read, options.get("same"), hints)
    tell(attempt.call, answers, right, mistakes, **options)


def ask_each(
    attempt: Attempt,
    cases: Sequence[Case],
    right: Rule,
    read: Callable[[Any], Any] | None = None,
    same: Same | None = None,
    hints: Hints | None = None,
) -> list[tuple[Case, Any]]:
    """All cases with their answers; those that fail after a wrong one are left out."""
    answers, is_right = [], True
    for case in cases:
        try:
            found = attempt(*case, hints=hints)
            if read:
                with telling(attempt.call(*case)):
                    found = read(found)
        except Rejected:
            if is_right:
                raise
            continue
        answers.append((case, found))
        is_right = is_right and (same or equal)(found, right(*case))
    return answers


def tell(
    call: Callable[..., str],
    answers: Sequence[tuple[Case, Any]],
    right: Rule,
    mistakes: Rules,
    *,
    odd: Mapping[str, Any] | None = None,
    same: Same | None = None,
    write: Callable[[Any], str] | None = None,
) -> None:
    """Raise Rejected at the first wrong answer; all of them tell which mistake it is.

    call: writes a case. odd: mistakes that this answer alone tells.
    """
    for case, found in answers:
        if not (same or equal)(found, expected := right(*case)):
            said = which(mistakes, answers, same)
            told = {**(odd or {}), said: True}
            diagnose(call(*case), found, expected, told, same=same, write=write)


def which(
    mistakes: Rules, answers: Sequence[tuple[Case, Any]], same: Same | None = None
) -> str:
    """What to say of the first mistake that gives all these answers; else nothing."""

    def gives_all(rule: Rule) -> bool:
        with suppress(ArithmeticError, LookupError):  # where a mistake finds no answer
            return all((same or equal)(own, rule(*case)) for case, own in answers)
        return False

    for said, rules in mistakes.items():
        if any(map(gives_all, [rules] if callable(rules) else rules)):
            return said
    return ""


def is_list(found: Any) -> bool:
    """Are they several things, where one is asked for?"""
    return isinstance(found, list | tuple | set)


def refuse_a_float(attempt: Attempt, arguments: Case) -> None:
    """Raise Rejected if a count that is right is a float: no list takes it as index."""
    found = attempt.function(*arguments)
    if isinstance(found, float):
        call = attempt.call(*arguments)
        raise Rejected(f"{call}: got {found}, a float; a count is an int: divide by //")


@contextmanager
def telling(story: str) -> Iterator[None]:
    """Of whatever is rejected inside, the story is told first."""
    try:
        yield
    except Unlike as found:
        raise Unlike(f"{story}; {found}") from found.__cause__
    except Rejected as found:
        raise Rejected(f"{story}: {found}") from found.__cause__
