"""Triton's interpreter, without what it does anew for each call within a kernel."""

from collections.abc import Iterator
from types import SimpleNamespace
from unittest.mock import patch

import pytest

from minipaged.attention.kernels.setup import INTERPRETED, tl, triton


def is_language(value: object) -> bool:
    """Triton's own functions call its language `core`."""
    return value is tl or value is tl.core


@pytest.fixture(autouse=True, scope="session")
def language_is_exchanged_once() -> Iterator[None]:
    """For a kernel, the interpreter puts functions of its own into triton.language.

    It does so again whenever the kernel calls another function, which changes nothing
    and is a third of the time. Here they stay until the kernel has ended.
    """
    if not INTERPRETED:
        yield
        return
    exchange = triton.runtime.interpreter._patch_lang

    def exchange_once(function):
        languages = filter(is_language, function.__globals__.values())
        if any(tl.core.is_builtin(language.load) for language in languages):
            return exchange(function)
        return SimpleNamespace(restore=lambda: None)

    with patch.object(triton.runtime.interpreter, "_patch_lang", exchange_once):
        yield
