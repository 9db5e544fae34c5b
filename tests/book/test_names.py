"""Code in a text that names something public."""

import pytest

from book.names import meant, public_names
from minipaged import __all__


def test_the_public_names():
    assert set(public_names()) == set(__all__)


@pytest.mark.parametrize(
    ("code", "wanted"),
    [
        ("BlockTable", "BlockTable"),
        ("mp.BlockTable.append(3)", "BlockTable.append"),
        ("minipaged.generate", "generate"),
        ("mp.PagedModel(model, num_blocks=64)", "PagedModel"),
        ("generate", None),  # HuggingFace's
        ("step(q, k, v)", None),
        ("NewTable", None),
        ("BlockTable and more", None),
        ("paged.pool", None),
    ],
)
def test_what_code_means(code, wanted):
    assert meant(code) == wanted
