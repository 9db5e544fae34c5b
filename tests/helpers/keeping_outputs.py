"""A conftest.py, laid beside a notebook that nbval runs alone: see alone.py."""

import json
from pathlib import Path

import pytest


def pytest_itemcollected(item: pytest.Item) -> None:
    """No tag or comment lets a cell be skipped, or raise: Colab reads neither."""
    item.options.update(skip=False, check_exception=False)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.cell.metadata.get("after", item.cell_num))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item):
    """Keep what the cell showed, after nbval has compared it with what is stored."""
    try:
        return (yield)
    finally:
        item.cell.outputs = item.test_outputs or []


def pytest_sessionfinish(session: pytest.Session) -> None:
    notebook = session.items[0].parent.nb
    Path(__file__).with_name("ran.json").write_text(json.dumps(notebook))
