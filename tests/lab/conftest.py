import matplotlib
import matplotlib.pyplot as plt
import pytest

from minipaged.lab.plots.render import PENS

matplotlib.use("agg")


@pytest.fixture(autouse=True)
def scenes_alone(request, monkeypatch):
    """Tests read scenes. Matplotlib draws their marks for tests that ask: `pens`."""
    if "pens" not in request.fixturenames:
        for kind in PENS:
            monkeypatch.setitem(PENS, kind, lambda axes, mark: None)
    yield
    plt.close("all")


@pytest.fixture
def pens():
    """Matplotlib draws pictures, as in notebooks."""
