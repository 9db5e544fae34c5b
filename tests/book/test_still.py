"""The front page's still picture shows what a real table does."""

import re

from book import still


def test_the_picture_shows_the_copy():
    svg = still.svg()
    words = re.findall(r"<text[^>]*>([^<]+)</text>", svg)
    assert "B writes: block 1 is shared, so it is copied first" in " ".join(words)
    assert words.count("A B") == 1  # one block is held by both
    assert "its table, 7 tokens" in words and "its table, 6 tokens" in words


def test_its_colours_are_the_pages():
    svg = still.svg()
    assert "var(--ink)" in svg and "#1B1F24" not in svg
