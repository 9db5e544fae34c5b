"""How much is tried: `make test` tries some of it, `make test-thorough` all.

What is left out is more of the same: other members of a family of which some are
always tried, other random examples.
"""

import os
from collections.abc import Iterable

import pytest

THOROUGH = os.environ.get("MINIPAGED_THOROUGH") == "yes"
# For a test that is much like another one, and slow.
thorough_only = pytest.mark.skipif(not THOROUGH, reason="make test-thorough")


def all_or(everything: Iterable, some: Iterable) -> list:
    """All of it, or only these."""
    everything, some = list(everything), list(some)
    assert some and all(each in everything for each in some)
    return everything if THOROUGH else some


def often(count: int) -> int:
    """So many times, or a fifth of it."""
    return count if THOROUGH else -(-count // 5)
