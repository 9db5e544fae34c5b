"""A browser, and pages in it. Where none is installed, these tests are skipped.

Starting JupyterLab, opening a page of it and starting its kernel take longer than most
tests. So all tests of this folder share a page with a single cell: each writes its own
text into it. One process runs the whole folder: see tests/conftest.py.
"""

import os

import pytest

from helpers.real_lab import (
    WIDE,
    find_browser,
    fresh_page,
    lab_server,
    open_browser,
    open_notebook,
    set_theme,
    set_width,
    wait_for_kernel,
    write_notebook,
)


@pytest.fixture(scope="session")
def browser():
    """One browser for all tests."""
    if find_browser() is None:
        what = "no Chromium is installed: `make browser` does it"
        # A test that CI skips in silence is no test.
        (pytest.fail if os.environ.get("CI") else pytest.skip)(what)
    with open_browser() as opened:
        yield opened


@pytest.fixture(scope="session")
def lab_folder(tmp_path_factory):
    """The folder that JupyterLab shows."""
    return tmp_path_factory.mktemp("lab")


@pytest.fixture(scope="session")
def lab(browser, lab_folder):
    """The address of a JupyterLab; without a browser none is started."""
    with lab_server(lab_folder) as address:
        yield address


@pytest.fixture(scope="session")
def notebook(browser, lab, lab_folder):
    """The page of a notebook with a single cell, and the errors of its console."""
    write_notebook(lab_folder / "cell.ipynb", "")
    with fresh_page(browser) as (page, errors):
        open_notebook(page, lab, "cell.ipynb")
        yield page, errors


@pytest.fixture
def page(notebook):
    """The same page for each test: light, wide, its console without errors."""
    page, errors = notebook
    set_theme(page, dark=False)
    set_width(page, WIDE)
    page.mouse.move(0, 0)
    yield page
    wait_for_kernel(page)  # until all that the test set off has come to its end
    said, errors[:] = [*errors], []  # the next test does not answer for these
    assert not said
