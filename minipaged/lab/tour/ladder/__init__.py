"""The rungs that lead to lesson 6's decode kernel, each to be read, run and timed.

All compute the same, for batches of one new token per sequence, and each changes one
thing of the rung before it. They leave out what does not bear on speed: windows, soft
caps, and head sizes that are no power of two.
"""

from minipaged.lab.tour.ladder.kv_head import (
    _kv_head_kernel,
    per_kv_head,
    update_by_sums,
    update_by_units,
)
from minipaged.lab.tour.ladder.query_head import _query_head_kernel, per_query_head
from minipaged.lab.tour.ladder.rungs import RUNGS, shipped, sized, two_on_each
from minipaged.lab.tour.ladder.split import _split_kernel, read_splits, split
