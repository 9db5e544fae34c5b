"""Two GPUs answer as one does: their collectives are captured with everything else."""

import os
import re
import signal
import time

import pytest
import torch

import minipaged as mp
from helpers import on_ranks
from helpers.answers import huggingface_outputs
from helpers.rank_processes import RankProcesses
from helpers.serving import CONFIGS, PROMPTS, check, config
from helpers.tiny_models import tiny_model

pytestmark = pytest.mark.skipif(
    torch.cuda.device_count() < 2, reason="wants a second GPU"
)
RUNS = ("eager", "graphs", "compiled")


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """Two ranks that stay in step through all tests."""
    ranks = RankProcesses(2, tmp_path_factory.mktemp("ranks"), seconds=240)
    yield ranks
    ranks.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of a tiny model."""
    path = str(tmp_path_factory.mktemp("models") / "llama")
    tiny_model("llama").save_pretrained(path)
    mp.load("pocket")[1].save_pretrained(path)
    return path


@pytest.mark.parametrize("name", ["llama", "pocket"])
@pytest.mark.parametrize("run", RUNS)
def test_answers(two, folder, run, name):
    """All kinds of requests; then greedy ones, whose steps run one ahead.

    The pocket model's embeddings are tied.
    """
    model = mp.load(folder if name == "llama" else name)[0]  # on the first GPU
    own = [*CONFIGS, *[config(9)] * len(PROMPTS)]
    seeds = list(range(len(own)))
    right = huggingface_outputs(model, PROMPTS * 2, own, seed=seeds)
    outs = two(on_ranks.answer_on_gpus, folder if name == "llama" else name, run)
    for answers, has_memory in outs:
        check(answers, right)
        assert has_memory


def test_sums(two):
    """Of many sizes, in graphs and without, beside NCCL's."""
    (first, num_sums), (second, _) = two(on_ranks.sum_on_gpus)
    assert first == second == []
    assert num_sums > 500


@pytest.mark.parametrize("run", ["graphs", "compiled"])
def test_a_rank_that_is_killed_ends_the_other(folder, tmp_path, run):
    """Its GPU waits for the dead one's, and no time-out would end that."""
    ranks = RankProcesses(2, tmp_path, seconds=240)
    try:
        ranks.start(on_ranks.serve_on_gpus_on_and_on, folder, run)
        deadline = time.monotonic() + 200
        while ranks.printed().count(on_ranks.BEGUN) < 2:
            assert time.monotonic() < deadline, ranks.printed()
            time.sleep(0.1)
        time.sleep(0.5)
        os.kill(ranks.processes[1].pid, signal.SIGKILL)
        began = time.monotonic()
        kind, text = ranks.ends(0)
        assert re.search("rank 1 has ended", kind + text)
        ranks.pipes[0].close()
        ranks.processes[0].join(10)
        assert not ranks.processes[0].is_alive()
        assert time.monotonic() - began < 10
    finally:
        ranks.close()
