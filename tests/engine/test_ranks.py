"""Ranks that share a model answer as one process does, and as HuggingFace does."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from transformers import GenerationConfig

import minipaged as mp
from helpers import on_ranks
from helpers.answers import huggingface_outputs
from helpers.killing_ranks import ENOUGH, PHASES, Killing
from helpers.rank_processes import SECONDS, RankProcesses
from helpers.replaying import ReplayingRunner
from helpers.serving import CONFIGS, PROMPTS, check, config, expected
from helpers.tiny_models import tiny_model
from minipaged.model.compiled import CompiledRunner

TIED = "llama qwen2 qwen3 gemma2 gemma3_text mistral granite cohere olmo2".split()
SHORT = GenerationConfig(max_new_tokens=9, do_sample=False)
FAMILIES = "llama qwen3 gemma2 mistral phi3 qwen3_moe deepseek_v3 olmo2".split()


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """Two ranks that stay in step through all tests."""
    ranks = RankProcesses(2, tmp_path_factory.mktemp("ranks"))
    yield ranks
    ranks.close()


@pytest.fixture
def start(tmp_path):
    """Start so many ranks, which may fail."""
    started = []

    def start(count):
        started.append(RankProcesses(count, tmp_path))
        return started[-1]

    yield start
    for ranks in started:
        ranks.close()


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory):
    """The folder of a tiny model."""
    place = tmp_path_factory.mktemp("models")
    _, tokenizer = mp.load("pocket")

    def folder(family, model=None):
        path = place / family
        if not path.exists():
            (model or tiny_model(family)).save_pretrained(path)
            tokenizer.save_pretrained(path)
        return str(path)

    return folder


@pytest.mark.parametrize("family", FAMILIES)
def test_greedy(two, folder_of, family):
    right = huggingface_outputs(tiny_model(family), PROMPTS[:4], config(9))
    for outs, _ in two(on_ranks.generate, folder_of(family), config(9), 4):
        check(outs, right)


def test_all_kinds(two, folder_of):
    for outs, num_heads in two(on_ranks.generate, folder_of("qwen3")):
        check(outs)
        assert num_heads == 1  # of two


ENGINES = {
    "plain": {},
    "prefix cache": {"cache": True},
    "recompute": {"num_blocks": 24},
    "swap": {"num_blocks": 24, "preemption": "swap"},
    "speculation": {"speculation": mp.PromptLookup(4)},
}


@pytest.mark.parametrize("name", ENGINES)
def test_engines(two, folder_of, name):
    options = ENGINES[name]
    first, second = two(on_ranks.run_engine, folder_of("qwen3"), **options)
    right = expected()
    if name == "speculation":
        right = huggingface_outputs(
            tiny_model("qwen3"), PROMPTS, on_ranks.WARM, seed=on_ranks.SEEDS
        )
    check(first[0], right)
    check(second[0], right)
    assert first[1] and not second[1], "a rank scheduled for itself"
    if "num_blocks" in options:
        assert first[2], "nothing was preempted"


@pytest.mark.parametrize("kind", [ReplayingRunner, CompiledRunner])
def test_one_step_ahead_with_graphs(two, folder_of, kind):
    """Rank 0's GPU hands tokens to the others' before any CPU has read them."""
    (first, num_replays), (second, others) = two(
        on_ranks.run_ahead, folder_of("qwen3"), kind
    )
    assert num_replays == others > 10
    right = [*expected(), *greedy_answers()]
    check(first, right)
    check(second, right)


def test_ranks_need_the_tokens_that_nobody_has_read(two, folder_of):
    """The proof can fail."""
    (first, _), _ = two(on_ranks.run_ahead, folder_of("qwen3"), forgets=True)
    wrong = [out.sequences for out in first[-5:]]
    assert wrong != [out.sequences for out in greedy_answers()]


def greedy_answers():
    return huggingface_outputs(tiny_model("qwen3"), PROMPTS[:5], config(9))


@pytest.mark.parametrize(
    ("num_rows", "num_placed"), [(4, None), (4, 4), (3, 4), (5, 4), (0, None), (1, 4)]
)
def test_what_is_gathered(two, num_rows, num_placed):
    for is_right, is_placed in two(on_ranks.gather, num_rows, num_placed):
        assert is_right
        assert is_placed == (num_placed is not None and num_rows <= num_placed)


def test_streams(two, folder_of):
    first, second = two(on_ranks.stream, folder_of("qwen3"))
    assert first == second
    right = huggingface_outputs(tiny_model("qwen3"), PROMPTS[:3], CONFIGS[0])
    tokens, some, output, _, _, third = first
    assert [tokens] == right[0].sequences
    assert right[1].sequences[0][:1] == some
    assert output.finish_reason == "aborted"
    assert third.sequences == right[2].sequences


def test_serving(two, folder_of):
    first, second = two(on_ranks.serve, folder_of("qwen3"))
    right = huggingface_outputs(tiny_model("qwen3"), PROMPTS[:4], CONFIGS[0])
    check(first, right)
    check(second, right)


def test_refusals_leave_the_ranks_in_step(two, folder_of):
    first, second = two(on_ranks.refused, folder_of("qwen3"))
    assert first == second
    errors, (good, bad) = first
    assert len(errors) == 2
    assert good.finish_reason == "length" and bad.finish_reason == "error"


def test_rank_0_draws_for_all(two, folder_of):
    first, second = two(on_ranks.draw_without_seed, folder_of("qwen3"), False)
    assert first == second
    # The proof can fail: ranks that draw for themselves drift apart.
    first, second = two(on_ranks.draw_without_seed, folder_of("qwen3"), True)
    assert first != second


def test_heads_shared_out_wrongly_are_noticed(two, folder_of):
    right = huggingface_outputs(tiny_model("llama"), PROMPTS[:4], config(9))
    outs, _ = two(on_ranks.with_heads_exchanged, folder_of("llama"))
    assert outs != right


@pytest.mark.parametrize("draft", [False, True])
def test_tied_embeddings(two, draft):
    model, tokenizer = mp.load("pocket")
    prompts = tokenizer(["The capital of France is", "Once upon a time"]).input_ids
    right = huggingface_outputs(model, prompts, SHORT)
    for outs in two(on_ranks.pocket, SHORT, draft):
        check(outs, right)


@pytest.mark.parametrize("family", TIED)
def test_tied_embeddings_of_a_family(two, folder_of, family):
    """Of the one weight, each rank has some rows; it gives tokens and logits."""
    model = tiny_model(family, tie_word_embeddings=True)
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight
    right = huggingface_outputs(model, PROMPTS[:4], config(9))
    folder = folder_of(f"{family}-tied", model)
    for outs, _ in two(on_ranks.generate, folder, config(9), 4):
        check(outs, right)


@pytest.mark.parametrize("by_data", [False, True])
def test_a_write_to_one_share_is_noticed_by_all(two, folder_of, by_data):
    first, second = two(on_ranks.write_to_a_shard, folder_of("llama"), by_data)
    assert first == second
    assert "rank 1" in first[1] and "wrap it again" in first[1]


def test_four_ranks(start, folder_of):
    four = start(4)
    right = huggingface_outputs(
        tiny_model("llama"), PROMPTS, CONFIGS, seed=on_ranks.SEEDS
    )
    for outs, num_heads in four(on_ranks.generate, folder_of("llama")):
        check(outs, right)
        assert num_heads == 1
    for kind, text in four.errors(on_ranks.load, folder_of("qwen3")):
        assert kind == "UnsupportedModel" and "4 ranks cannot share out" in text
    for kind, text in four.errors(on_ranks.load, folder_of("gpt2")):
        assert kind == "UnsupportedModel" and "no plan" in text


def test_ranks_that_run_other_lines_are_told(start, folder_of):
    ranks = start(2)
    ranks.start(on_ranks.run_other_lines, folder_of("qwen3"))
    for rank in range(2):
        _, text = ranks.ends(rank)
        assert "rank 0 runs generate, but rank 1 runs Engine;" in text


def test_files_that_one_rank_lacks(start, folder_of):
    ranks = start(2)
    ranks.start(on_ranks.lack_files, folder_of("qwen3"))
    for rank in range(2):
        assert "rank 1: FileNotFoundError" in ranks.ends(rank)[1]


FAULTS = {
    "rank 0 is killed": (0, signal.SIGKILL, "rank 0 has ended"),
    "rank 1 is killed": (1, signal.SIGKILL, "rank 1 has ended"),
    # It may hit a rank where that can no longer tell why it ends.
    "Ctrl-C on rank 0": (0, signal.SIGINT, "KeyboardInterrupt|rank 0 has ended"),
    "Ctrl-C on rank 1": (1, signal.SIGINT, "KeyboardInterrupt|rank 1 has ended"),
    "rank 1 hangs": (1, signal.SIGSTOP, "has waited 2 seconds"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_all_ranks_end_with_the_cause(start, folder_of, fault):
    rank, number, cause = FAULTS[fault]
    ranks = start(2)
    ranks.start(on_ranks.go_on_and_on, folder_of("qwen3"), 2)
    while ranks.printed().count(on_ranks.BEGUN) < 2:
        time.sleep(0.1)
    os.kill(ranks.processes[rank].pid, number)
    began = time.monotonic()
    kind, text = ranks.ends(1 - rank)
    assert re.search(cause, kind + text)
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("phase", PHASES)
def test_a_rank_that_is_killed_ends_all(folder_of, tmp_path, phase):
    """Three of the twenty of tests/helpers/killing_ranks.py."""
    seconds, fault = Killing(2, 1, phase, 0.5).fault(folder_of("llama"), tmp_path)
    assert not fault
    assert seconds < ENOUGH


def test_a_rank_that_never_comes_is_waited_for_in_vain(start, folder_of):
    """Only for as long as ranks may differ in their start; not for hours."""
    two = start(2)
    two.processes[1].kill()
    two.pipes[0].send((on_ranks.load_with_patience, (folder_of("llama"), 1.0), {}))
    kind, text = two.ends(0)
    assert kind == "RankFailed" and "not all ranks have come within 1 s" in text


def test_nothing_of_the_ranks_outlives_a_script(tmp_path):
    """A thread of PyTorch's that does may abort the process, once in many times."""
    script = tmp_path / "script.py"
    script.write_text(
        "import atexit, sys\n"
        "import torch.distributed as dist\n"
        "import minipaged as mp\n"
        "def say():\n"
        "    print('is there still a group?', dist.is_initialized(), file=sys.stderr)\n"
        "atexit.register(say)\n"  # what is registered first runs last
        "mp.load('pocket', tp='auto')\n"
    )
    code, printed = _torchrun(2, script)
    assert code == 0, printed
    assert printed.count("is there still a group? False") == 2


def test_a_group_that_a_script_has_made_is_used(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\n"
        "import torch.distributed as dist\n"
        "import minipaged as mp\n"
        "dist.init_process_group('gloo')\n"
        "paged = mp.PagedModel(mp.load('pocket', tp='auto')[0], 8)\n"
        "mp.generate(paged, [[5, 6, 7]])\n"
        # One word, because both write to one place.
        "ranks = f'{paged.ranks.rank}of{paged.ranks.count} '\n"
        "sys.stderr.write(ranks)\n"
    )
    code, printed = _torchrun(2, script)
    assert code == 0, printed
    assert "0of2" in printed and "1of2" in printed


def test_what_all_ranks_raise_is_printed_once(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import minipaged as mp\nmp.load('pocket', tp='auto')\n")
    _, printed = _torchrun(4, script)
    assert printed.count("4 ranks cannot share out heads") == 1


def test_a_rank_that_hangs_where_it_is_asked_ends_all(start, folder_of):
    """No forward runs then, so no forward's time-out ends the wait."""
    ranks = start(2)
    ranks.start(on_ranks.go_on_and_on, folder_of("qwen3"), 2, hangs=True)
    assert "rank 0 has waited 2 seconds" in ranks.ends(0)[1]


def test_an_error_of_one_rank_ends_all(start, folder_of):
    ranks = start(2)
    ranks.start(on_ranks.go_on_and_on, folder_of("qwen3"), fails=True)
    for rank in range(2):
        assert "rank 1: ZeroDivisionError: a fault of one rank" in ranks.ends(rank)[1]


def test_torchrun(tmp_path):
    """All ranks get the same tokens; and if one fails, all end."""
    model, tokenizer = mp.load("pocket")
    prompts = tokenizer(["The capital of France is", "Once upon a time"]).input_ids
    right = huggingface_outputs(model, prompts, SHORT)
    script = Path(on_ranks.__file__).with_name("script_for_torchrun.py")
    code, printed = _torchrun(2, script, tmp_path)
    for rank in "01":
        tokens = (tmp_path / rank).read_text()
        assert tokens == f"{[out.sequences[0] for out in right]}\n"
    assert code == 1
    assert "this script has a fault on rank 1" in printed


def _torchrun(count, script, *arguments):
    """Its exit code, and what it and the ranks have printed.

    Once in some fifty runs, on a busy machine, a run did not end though both ranks had
    come to the end of what Python does at exit. So it has a second try.
    """
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--standalone")
    command = [*torchrun, f"--nproc-per-node={count}", str(script)]
    for last in (False, True):
        try:
            ran = subprocess.run(
                [*command, *map(str, arguments)],
                capture_output=True, text=True, timeout=SECONDS, check=False,
            )  # fmt: skip
            break
        except subprocess.TimeoutExpired:
            if last:
                raise
    return ran.returncode, ran.stderr
