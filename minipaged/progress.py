"""Lesson 2: one progress bar for the whole package, shown only when there is a wait."""

import os
from typing import Any

from tqdm.auto import tqdm


def progress_bar(*args: Any, **options: Any) -> tqdm:
    """A tqdm bar that appears after two seconds; none if TQDM_DISABLE is set.

    Handed over here because tqdm's own notebook bar does not look at that variable, and
    stored notebook outputs must not depend on how fast a machine is.
    """
    disable = os.environ.get("TQDM_DISABLE", "") not in ("", "0")
    return tqdm(*args, delay=2, disable=disable, **options)
