"""Streaming as it is with long contexts, for the short ones of these tests."""

from unittest.mock import patch

import pytest

from minipaged.attention import tiles


@pytest.fixture(autouse=True)
def a_block_in_each_step():
    """Else a short context would be read in one step, and nothing would be merged."""
    with patch.object(tiles, "STEP_TOKENS", 1):
        yield
