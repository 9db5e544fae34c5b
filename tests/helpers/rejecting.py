"""How tests show that a state machine notices a wrong version."""

import pytest
from hypothesis import Phase, settings


def assert_rejected(machine: type) -> None:
    """Some sequence of operations must break it, whichever invariant is first.

    Always the same search, and none for the smallest example, which nobody will read.
    """
    case = machine.TestCase
    case.settings = settings(
        max_examples=1000,
        stateful_step_count=30,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        print_blob=False,
    )
    with pytest.raises(Exception):  # noqa: B017
        case().runTest()
