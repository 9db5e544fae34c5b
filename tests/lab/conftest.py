import matplotlib
import matplotlib.pyplot as plt
import pytest

matplotlib.use("agg")


@pytest.fixture(autouse=True)
def close_figures():
    """Pictures are closed after each test."""
    yield
    plt.close("all")
