"""A text that runs on several ranks: what they print, and how it ends if they fail."""

import os
import time
from pathlib import Path

import pytest

from minipaged.lab import start_ranks


def alive(pids):
    return [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def test_each_rank_says_its_own_in_order():
    script = "import os, sys\nprint(os.environ['RANK'], *sys.argv[1:])"
    assert start_ranks(script, 3, ["a b", "[1]"]) == [
        f"{rank} a b [1]\n" for rank in range(3)
    ]


def test_what_gloo_says_is_not_the_script_s():
    """In torch 2.9, it tells on stdout how many ranks it has connected."""
    script = "print('[Gloo] Rank 0 is connected to 1 peer ranks.\\nseven')"
    assert start_ranks(script, 2) == ["seven\n"] * 2


def test_an_error_of_a_rank_is_told():
    script = "import os\nassert os.environ['RANK'] != '1', 'rank 1 fails'"
    with pytest.raises(RuntimeError, match="rank 1 fails"):
        start_ranks(script, 2)


def test_ranks_that_take_too_long_are_ended(tmp_path):
    script = (
        "import os, sys, time\n"
        "open(f'{sys.argv[1]}/{os.getpid()}', 'w').close()\n"
        "time.sleep(60)"
    )
    with pytest.raises(TimeoutError, match="not ended within 10 seconds"):
        start_ranks(script, 2, [str(tmp_path)], timeout=10)
    pids = os.listdir(tmp_path)
    deadline = time.monotonic() + 10
    while alive(pids) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert len(pids) == 2 and not alive(pids)
