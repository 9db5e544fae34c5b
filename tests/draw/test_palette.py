"""The colours of all pictures."""

import pytest

from minipaged.draw.palette import THEMES, contrast


def test_contrast_is_that_of_the_web_guidelines():
    assert contrast("#000000", "#FFFFFF") == pytest.approx(21)
    assert contrast("#FFFFFF", "#777777") == pytest.approx(4.48, abs=0.005)
    assert contrast("#0072B2", "#0072B2") == 1


@pytest.mark.parametrize("name", THEMES)
def test_titles_stand_out(name):
    """WCAG 2.2, AA: 4.5 to 1 at least, on any page."""
    look = THEMES[name]
    behind = look.ground if look.plate == "none" else look.plate
    assert contrast(look.title, behind) >= 4.5
