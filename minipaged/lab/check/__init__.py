"""Lab: checks of the exercises, by name: `check.attend(my_attend)`.

A check takes the reader's function or class, tries nasty cases on it, and prints
`accepted`, or the state in which it found it. It never raises, so that a notebook runs
to its end whatever stands in its exercises.
"""

from minipaged.lab.check.appending import append
from minipaged.lab.check.appendix_a import static_steps, step_plan
from minipaged.lab.check.appendix_b import num_preempted, swap_out
from minipaged.lab.check.beams import next_beams
from minipaged.lab.check.caching import reserved_cache
from minipaged.lab.check.choosing import sizes
from minipaged.lab.check.lesson1 import first_fit, max_chats
from minipaged.lab.check.lesson2 import attend, make_room, position_of
from minipaged.lab.check.lesson3 import block_keys, prefix_index, shared_blocks
from minipaged.lab.check.lesson4 import beam_blocks
from minipaged.lab.check.lesson5 import merge, stream, window
from minipaged.lab.check.lesson6 import least_time, packed, slots
from minipaged.lab.check.merging import merge_splits
from minipaged.lab.check.preempting import schedule
from minipaged.lab.check.promising import batching

__all__ = [
    "append",
    "attend",
    "batching",
    "beam_blocks",
    "block_keys",
    "first_fit",
    "least_time",
    "make_room",
    "max_chats",
    "merge",
    "merge_splits",
    "next_beams",
    "num_preempted",
    "packed",
    "position_of",
    "prefix_index",
    "reserved_cache",
    "schedule",
    "shared_blocks",
    "sizes",
    "slots",
    "static_steps",
    "step_plan",
    "stream",
    "swap_out",
    "window",
]
