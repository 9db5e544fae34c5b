"""A browser, and pages in it. Where none is installed, these tests are skipped."""

import os

import pytest

from helpers.real_lab import find_browser, fresh_page, open_browser


@pytest.fixture(scope="module")
def browser():
    """One browser for a module's tests."""
    if find_browser() is None:
        what = "no Chromium is installed: `make browser` does it"
        # A test that CI skips in silence is no test.
        (pytest.fail if os.environ.get("CI") else pytest.skip)(what)
    with open_browser() as opened:
        yield opened


@pytest.fixture
def page(browser):
    """A page whose console must stay without errors."""
    with fresh_page(browser) as (page, errors):
        yield page
        assert not errors
