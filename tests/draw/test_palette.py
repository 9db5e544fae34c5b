"""The colours of all pictures."""

import pytest

from minipaged.draw.palette import contrast


def test_contrast_is_that_of_the_web_guidelines():
    assert contrast("#000000", "#FFFFFF") == pytest.approx(21)
    assert contrast("#FFFFFF", "#777777") == pytest.approx(4.48, abs=0.005)
    assert contrast("#0072B2", "#0072B2") == 1
