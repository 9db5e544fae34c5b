"""num_blocks="auto": what fits beside the largest step; its words without a GPU."""

import pytest
import torch

import minipaged as mp
from helpers.tiny_models import tiny_model
from minipaged.model.room import blocks_in


def test_a_tenth_of_the_gpu_and_the_largest_step_stay_free():
    """Of 1,000 bytes 100, and 300 for the step: 600 are left, 500 if 900 are free."""
    assert blocks_in(1000, 1000, 300, 10) == 60
    assert blocks_in(900, 1000, 300, 10) == 50
    assert blocks_in(900, 1000, 300, 11) == 45
    assert blocks_in(900, 1000, 300, 10, share=0.5) == 10


def test_no_room_is_said_with_its_numbers():
    with pytest.raises(MemoryError, match=r"of 80.0 GB .* 9.0 are free; .* takes 2.0"):
        blocks_in(9 * 10**9, 80 * 10**9, 2 * 10**9, 10**6)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU to measure")
def test_without_a_gpu_it_says_what_to_do():
    with pytest.raises(ValueError, match="is on the cpu: give a number, or move it"):
        mp.PagedModel(tiny_model("llama"), "auto")


def test_another_word_is_no_number():
    with pytest.raises(ValueError, match="num_blocks must be a whole number"):
        mp.PagedModel(tiny_model("llama"), "many")
