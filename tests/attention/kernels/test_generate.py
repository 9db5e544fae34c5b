"""HuggingFace's text through the kernels; where they run, and what torch says."""

import copy
import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import GenerationConfig

import minipaged as mp
from helpers.answers import huggingface_generate
from helpers.attention_cases import make_case, moved, oracle
from helpers.notebook_files import NOTEBOOKS, definition, load
from helpers.thorough import all_or, thorough_only
from helpers.tiny_models import VOCABULARY, tiny_model
from minipaged.attention.backend import Masking
from minipaged.attention.kernels import decode as triton_decode
from minipaged.attention.kernels import sizes as triton_sizes
from minipaged.attention.kernels import step as triton_step
from minipaged.attention.kernels.attention import triton_attention
from minipaged.attention.kernels.cache import TritonKVCache
from minipaged.attention.kernels.decode import paged_decode
from minipaged.attention.kernels.setup import INTERPRETED, tl, triton
from minipaged.attention.kernels.sizes import (
    Device,
    decode_sizes,
    padded,
    prefill_sizes,
)
from minipaged.memory.kv_cache import LayerCache

pytestmark = pytest.mark.filterwarnings("ignore:.*encountered in.*:RuntimeWarning")

ROOT = Path(__file__).parents[3]
DEVICE = "cpu" if INTERPRETED else "cuda"
NEVER = VOCABULARY - 1


def prompts_of(*lengths):
    generator = torch.Generator().manual_seed(1)
    return [
        torch.randint(3, VOCABULARY, (n,), generator=generator).tolist()
        for n in lengths
    ]


SEVERAL_LAUNCHES = triton_attention._replace(step=None)  # write, decode, merge


def small_model(name):
    """Two layers, for the second reads what the first has hidden, and few KV heads."""
    layers = 3 if name == "gemma4_text" else 2  # of two shapes, and one comes again
    smaller = {"num_hidden_layers": layers}
    if name in ("llama", "deepseek_v3"):  # one query head for each KV head
        smaller |= {"num_attention_heads": 2, "num_key_value_heads": 2}
    return tiny_model(name, **smaller)


def poisoned(name, num_blocks=64, block_size=4, attention="triton"):
    """A model whose pool hands out blocks in random order, all slots holding NaN."""
    paged = mp.PagedModel(
        small_model(name).to(DEVICE), num_blocks, block_size, attention=attention
    )
    assert isinstance(paged.cache, TritonKVCache)
    order = torch.randperm(num_blocks, generator=torch.Generator().manual_seed(0))
    paged.pool._free = order.tolist()
    for tensor in (*paged.cache.keys, *paged.cache.values):
        tensor.fill_(float("nan"))
    return paged


def prove(paged, prompts, config, seed=None, **options):
    theirs = huggingface_generate(paged.model, prompts, config, seed=seed)
    ours = mp.generate(paged, prompts, config, seed=seed, **options)
    assert [out.sequences for out in ours] == theirs
    assert paged.pool.num_free == paged.pool.num_blocks
    return ours


# Seven heads to a KV head; head_dim 80; a window; soft cap and windows; layers of
# unequal shape; K wider than V; a scale of its own; sinks.
NAMES = "qwen2 phi3 mistral gemma2 gemma4_text deepseek_v3 granite gpt_oss".split()


@pytest.mark.parametrize("name", all_or(NAMES, ["gpt_oss"]))
def test_greedy(name):
    """A prompt's last token, one after it, and one after K and V that this has left."""
    config = GenerationConfig(max_new_tokens=3, eos_token_id=NEVER)
    prove(poisoned(name), prompts_of(1, 4, 5, 17), config)


@pytest.mark.parametrize("name", all_or(["qwen2", "gemma2", "gpt_oss"], ["gemma2"]))
def test_greedy_in_several_launches(name):
    config = GenerationConfig(max_new_tokens=3, eos_token_id=NEVER)
    prove(poisoned(name, attention=SEVERAL_LAUNCHES), prompts_of(1, 5, 17), config)


@thorough_only
def test_sampling_in_chunks():
    config = GenerationConfig(max_new_tokens=3, do_sample=True, eos_token_id=NEVER)
    paged = poisoned("qwen3")
    prove(paged, prompts_of(3, 9, 4), config, seed=[1, 2, 3], max_prompt_tokens=7)


def test_beams():
    config = GenerationConfig(
        max_new_tokens=4, num_beams=3, num_return_sequences=2, eos_token_id=NEVER
    )
    prove(poisoned("qwen3"), prompts_of(5, 8), config)


def test_a_prefix_that_others_have_computed():
    paged = poisoned("llama")
    prefix = mp.PrefixCache(paged.pool)
    config = GenerationConfig(max_new_tokens=3, eos_token_id=NEVER)
    system, *questions = prompts_of(13, 3, 6)
    prove(paged, [system], config, prefix_cache=prefix)
    outs = prove(paged, [system + q for q in questions], config, prefix_cache=prefix)
    assert [out.num_cached_tokens for out in outs] == [12, 12]


def test_half_precision_model():
    model = copy.deepcopy(small_model("llama")).to(DEVICE, torch.float16)
    paged = mp.PagedModel(model, num_blocks=8, attention="triton")
    out = mp.generate(paged, [[5, 6, 7]], GenerationConfig(max_new_tokens=2))
    assert len(out[0].sequences[0]) == 2


# Lesson 6's wrong versions.


def of_lesson_6(name, **namespace):
    """A deliberately wrong function, as the notebook defines it."""
    (path,) = (path for path in NOTEBOOKS if path.stem.startswith("06"))
    return definition(load(path), name, namespace)


def test_a_forgotten_split_is_rejected(monkeypatch):
    case = moved(make_case([(160, 1), (299, 1)]), DEVICE)
    where = case.batch.block_tables, case.batch.context_lengths, case.batch.query_starts
    tensors = case.q, case.keys, case.values, *where

    def error():
        out = torch.empty_like(case.q)
        paged_decode(out, *tensors, 161, 300, 0.25, num_splits=2)
        return (out.cpu() - oracle(case, scale=0.25)).abs().max()

    assert error() < 3e-5
    flawed = of_lesson_6("forgets_last_split", merge_splits=triton_decode.merge_splits)
    monkeypatch.setattr(triton_decode, "merge_splits", flawed)
    assert error() > 0.01


def test_a_tail_that_is_read_is_rejected():
    case = moved(make_case([(12, 1), (4, 1)], block_size=16), DEVICE)
    plain = mp.triton_attention._replace(step=None)
    known = {"PLAIN": plain, "replace": dataclasses.replace}
    flawed = of_lesson_6("reads_the_tail", **known)
    assert case.attend(flawed).isnan().any()


# Where kernels run.


def run(code, **environment):
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        check=False,
    )
    return result.stdout + result.stderr


@pytest.mark.skipif(not INTERPRETED, reason="looks at the interpreter")
def test_the_interpreter_is_used_even_if_triton_was_imported_before():
    code = (
        "import os; os.environ.pop('TRITON_INTERPRET', None); import triton;"
        "from minipaged.attention.kernels.setup import INTERPRETED, tl, triton as new;"
        "print(INTERPRETED, new is not triton, type(tl.max).__name__)"
    )
    assert run(code).split() == ["True", "True", "InterpretedFunction"]


@pytest.mark.skipif(not INTERPRETED, reason="looks at the interpreter")
@thorough_only
def test_sums_of_what_a_mask_will_hide_are_not_warned_of(tmp_path):
    """Such numbers were written by nobody, so a warning would come now and then."""
    script = tmp_path / "sums.py"  # Triton reads a kernel's source
    script.write_text(
        "import torch\n"
        "from minipaged.attention.kernels.setup import tl, triton\n"
        "@triton.jit\n"
        "def total(out, x):\n"
        "    tl.store(out, tl.sum(tl.load(x + tl.arange(0, 4)), 0))\n"
        "out = torch.zeros(1)\n"
        "total[1,](out, torch.full((4,), 3e38))\n"
        "print(out.item())\n"
    )
    code = f"import runpy; runpy.run_path({str(script)!r})"
    assert run(code) == "inf\n"


@thorough_only
def test_other_words_for_no_are_understood():
    code = "from minipaged.attention.kernels import setup as s; print(s.INTERPRETED)"
    assert run(code, TRITON_INTERPRET="off") == "False\n"


LOUD = """
import torch
from minipaged.attention.kernels.setup import tl, triton


@triton.jit
def hide_an_overflow(out, x):
    tl.store(out, tl.where(False, tl.exp2(tl.load(x)) * 0.0, 1.0))


out = torch.zeros(1)
hide_an_overflow[(1,)](out, torch.full((1,), 1e6))
print(out.item())
"""


@pytest.mark.skipif(not INTERPRETED, reason="looks at the interpreter")
def test_the_interpreter_does_not_warn_of_what_a_mask_hides(tmp_path):
    """A notebook's stored outputs must not depend on what lay in the memory."""
    (tmp_path / "loud.py").write_text(LOUD)
    assert run(f"import runpy; runpy.run_path({str(tmp_path / 'loud.py')!r})") == (
        "1.0\n"
    )


@triton.jit
def twice(x):
    return 2 * x


@triton.jit
def four_times(out, x):
    tl.store(out, twice(twice(tl.load(x))))


@pytest.mark.skipif(not INTERPRETED, reason="looks at the interpreter")
def test_the_language_is_exchanged_once_for_a_launch(monkeypatch):
    """And not again for each function that the kernel calls, which takes long."""
    module, launches = triton.runtime.interpreter, []
    if not hasattr(module, "_LangPatchScope"):
        pytest.skip("before Triton 3.6, the language never comes back")
    exchange = module._patch_lang_core

    def counted(*arguments):
        launches.append(len(launches))
        return exchange(*arguments)

    monkeypatch.setattr(module, "_patch_lang_core", counted)
    out = torch.zeros(1)
    for num_launches in (1, 2):
        four_times[(1,)](out, torch.ones(1))
        assert out.item() == 4 and len(launches) == num_launches
        assert tl.core.is_builtin(tl.load)  # the language is as it was


@triton.jit
def count_up_to(out, switch, n):
    place = tl.arange(0, 8)
    is_wanted = (place < n) & (tl.load(switch) > 0)
    tl.store(out + place, 1, mask=is_wanted)


@pytest.mark.parametrize("dtype", [torch.int32, torch.float32], ids=str)
@pytest.mark.parametrize("switch, total", [(1, 5), (0, 0)])
def test_one_condition_for_all_places_may_be_part_of_a_mask(dtype, switch, total):
    out = torch.zeros(8, dtype=torch.int32, device=DEVICE)
    count_up_to[(1,)](out, torch.tensor([switch], dtype=dtype, device=DEVICE), 5)
    assert out.sum() == out[:5].sum() == total


def test_without_triton_the_error_names_the_alternative():
    code = (
        "import importlib.util as u; find = u.find_spec;"
        "u.find_spec = lambda name: None if name == 'triton' else find(name);"
        "import minipaged as mp; mp.triton_attention"
    )
    assert "use attention='gathered', which needs torch alone" in run(code)


def test_beside_prompts_those_that_decode_may_be_uneven(monkeypatch):
    """The shortest context of such a step may be a prompt's: it says nothing."""
    seen = []

    def watch(module, name):
        choose = getattr(module, name)

        def sizes(q, values, num_seqs, shortest, longest, *more):
            seen.append((name, shortest, longest))
            return choose(q, values, num_seqs, shortest, longest, *more)

        monkeypatch.setattr(module, name, sizes)

    watch(triton_decode, "decode_sizes")
    watch(triton_step, "step_sizes")
    for contexts in ([(9, 1), (7, 1)], [(9, 1), (0, 8)]):
        case = moved(make_case(contexts), DEVICE)
        triton_attention.attend(
            case.q, LayerCache(case.keys, case.values), case.batch, Masking(0.25)
        )
    assert seen == [("decode_sizes", 8, 10), ("step_sizes", 0, 10)]


# torch.compile.


def test_the_kernels_run_inside_a_compiled_twin():
    paged, config = poisoned("qwen3"), GenerationConfig(max_new_tokens=2)
    paged.twin.compile(backend="eager", fullgraph=True, dynamic=True)
    prove(paged, prompts_of(5, 3), config)


# The rules for sizes.


H200 = Device(132, 227 * 1024, (torch.bfloat16,), can_overlap=True)
L4 = Device(58, 99 * 1024, (torch.bfloat16,), can_overlap=False)
T4 = Device(40, 64 * 1024, (), can_overlap=False)


def sizes_on(device, monkeypatch, num_seqs, shortest, longest, shape=(32, 8, 128)):
    monkeypatch.setattr(triton_sizes, "device_of", lambda index: device)
    heads, kv_heads, dim, *_ = shape
    q = torch.empty(num_seqs, heads, dim, dtype=torch.bfloat16)
    values = torch.empty(1, 16, kv_heads, shape[-1], dtype=torch.bfloat16)
    return decode_sizes(q, values, num_seqs, shortest, longest), prefill_sizes(
        q, values
    )


@pytest.mark.parametrize(
    ("num_seqs", "shortest", "longest", "num_splits"),
    [
        (1, 8192, 8192, 66),  # 8 KV heads: 528 programs on 132 multiprocessors
        (1, 1024, 1024, 32),  # a tile each
        (1, 1, 1, 1),
        (8, 4096, 4096, 8),
        (32, 2048, 2048, 1),  # two large programs on each
        (24, 4096, 4096, 2),
        (40, 4096, 4096, 1),
        (64, 4096, 4096, 1),
        (64, 100, 4096, 4),  # uneven
        (2, 100, 4000, 15),  # of two tiles at least
        (2, 50, 120, 1),
        (256, 128, 4096, 1),
    ],
)
def test_splits_fill_the_gpu(monkeypatch, num_seqs, shortest, longest, num_splits):
    (_, splits), _ = sizes_on(H200, monkeypatch, num_seqs, shortest, longest)
    assert splits == num_splits


def test_no_more_splits_than_one_program_merges(monkeypatch):
    (_, splits), _ = sizes_on(H200, monkeypatch, 1, 100, 10**6, shape=(8, 1, 128))
    assert splits == 256


def test_matrices_have_16_rows_and_powers_of_two():
    assert [padded(n) for n in (1, 16, 17, 80, 256)] == [16, 16, 32, 128, 256]


@pytest.mark.parametrize("device", [H200, L4, T4], ids=["H200", "L4", "T4"])
@pytest.mark.parametrize(
    "shape",
    [(8, 8, 256), (71, 1, 64), (16, 1, 192), (9, 3, 80), (8, 2, 512), (8, 2, 64, 512)],
)
def test_sizes_fit_the_gpu_and_hold_the_group(monkeypatch, device, shape):
    for num_seqs in (1, 40, 4000):
        (decode, _), prefill = sizes_on(device, monkeypatch, num_seqs, 99, 999, shape)
        for sizes in (decode, prefill):
            assert sizes.rows >= shape[0] // shape[1]
            assert sizes.tile & (sizes.tile - 1) == 0 and sizes.tile >= 16
            assert sizes.num_stages >= 2
            row_bytes = 2 * 2 * padded(shape[-1])
            held = (sizes.num_stages - 1) * sizes.tile * row_bytes
            assert held + sizes.rows * row_bytes // 2 <= device.shared_bytes
