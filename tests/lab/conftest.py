import matplotlib
import matplotlib.pyplot as plt
import pytest

from helpers.interpreter import language_is_exchanged_once  # noqa: F401

matplotlib.use("agg")


@pytest.fixture(autouse=True)
def close_figures():
    """Pictures are closed after each test."""
    yield
    plt.close("all")
