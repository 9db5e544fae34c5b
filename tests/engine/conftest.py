"""Streaming as it is with long contexts, for the short ones of these tests."""

from unittest.mock import patch

import pytest

from minipaged.attention import streamed


@pytest.fixture(autouse=True)
def a_few_tokens_in_each_step():
    """Else a short context would be read in one step, and nothing would be merged."""
    with patch.object(streamed, "TILE_TOKENS", 4):
        yield
