"""Lab: checks of the exercises, by name: `check.attend(my_attend)`.

A check takes the reader's function or class, tries nasty cases on it, and prints
`accepted`, or the state in which it found it. It never raises, so that a notebook runs
to its end whatever stands in its exercises.
"""

from minipaged.lab.check.appending import append
from minipaged.lab.check.appendix_a import static_steps, turns
from minipaged.lab.check.appendix_b import num_preempted, swap_out
from minipaged.lab.check.appendix_c import stretches, waves
from minipaged.lab.check.appendix_d import answers_ahead, graph_size, graphed
from minipaged.lab.check.appendix_e import kept, lookup, taken
from minipaged.lab.check.appendix_f import host_seconds, step_price, sustained
from minipaged.lab.check.appendix_g import (
    answering,
    cut,
    incident_1,
    incident_2,
    incident_3,
)
from minipaged.lab.check.appendix_h import all_reduce, heads, shares
from minipaged.lab.check.beams import next_beams
from minipaged.lab.check.caching import reserved_cache
from minipaged.lab.check.capstone import (
    a_shared_prefix,
    a_stream,
    blocks_and_tables,
    many_prompts,
    one_prompt,
    one_token,
    too_small_a_pool,
    two_samples,
)
from minipaged.lab.check.choosing import sizes
from minipaged.lab.check.evicting import free_order
from minipaged.lab.check.incidents import (
    incident_of_appendix_b,
    incident_of_lesson_3,
    incident_of_lesson_4,
)
from minipaged.lab.check.lesson0 import must_copy
from minipaged.lab.check.lesson1 import first_fit, four_kinds
from minipaged.lab.check.lesson2 import attend, position_of, ragged_row
from minipaged.lab.check.lesson3 import prefix_index, shared_blocks
from minipaged.lab.check.lesson4 import is_done
from minipaged.lab.check.lesson5 import merge, stream, window
from minipaged.lab.check.lesson6 import packed, slots, sums
from minipaged.lab.check.merging import merge_splits
from minipaged.lab.check.preempting import schedule
from minipaged.lab.check.promising import batching
from minipaged.lab.check.ring import warps
from minipaged.lab.check.routing import may_serve, remembered, route
from minipaged.lab.check.scaling import eight_bits
