"""Lab: all guided scenes of the pool's widget, by name."""

from collections.abc import Mapping
from types import MappingProxyType

from minipaged.lab.pool.scene import Scene
from minipaged.lab.pool.scenes_of_appendix_b import RECOMPUTE, SWAP
from minipaged.lab.pool.scenes_of_lesson2 import FULL, HOLES
from minipaged.lab.pool.scenes_of_lesson3 import EVICTION, PREFIX
from minipaged.lab.pool.scenes_of_lesson4 import BEAMS, COPY

SCENES: Mapping[str, Scene] = MappingProxyType(
    {
        "holes": HOLES,
        "full": FULL,
        "prefix": PREFIX,
        "eviction": EVICTION,
        "beams": BEAMS,
        "copy": COPY,
        "recompute": RECOMPUTE,
        "swap": SWAP,
    }
)
