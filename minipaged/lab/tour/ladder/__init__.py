"""The rungs that lead to lesson 6's decode kernel, each to be read, run and timed.

All compute the same, for batches of one new token per sequence, and each changes one
thing of the rung before it. They leave out what does not bear on speed: windows, soft
caps, and head sizes that are no power of two.
"""

from minipaged.lab.tour.ladder.kv_head import per_kv_head as per_kv_head
from minipaged.lab.tour.ladder.query_head import per_query_head as per_query_head
from minipaged.lab.tour.ladder.rungs import RUNGS as RUNGS
from minipaged.lab.tour.ladder.rungs import shipped as shipped
from minipaged.lab.tour.ladder.rungs import sized as sized
from minipaged.lab.tour.ladder.rungs import two_on_each as two_on_each
from minipaged.lab.tour.ladder.split import split as split
