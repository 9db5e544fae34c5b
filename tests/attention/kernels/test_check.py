"""What the kernels cannot take is refused, with words, before anything is changed."""

import copy
import types

import pytest
import torch

import minipaged as mp
from helpers.attention_cases import make_case, moved, oracle, sinks_of
from helpers.tiny_models import tiny_model
from minipaged.attention.kernels import check as triton_check
from minipaged.attention.kernels.attention import triton_attention
from minipaged.attention.kernels.decode import paged_decode
from minipaged.attention.kernels.prefill import paged_prefill
from minipaged.attention.kernels.setup import INTERPRETED
from minipaged.attention.kernels.write import copy_blocks, write_kv

DEVICE = "cpu" if INTERPRETED else "cuda"


def gaps(tensor):
    """The same numbers, not contiguous."""
    return tensor.transpose(0, 1).contiguous().transpose(0, 1)


def refuse(match, case, **options):
    case = moved(case, DEVICE)
    with pytest.raises(ValueError, match=match):
        case.attend(triton_attention, **options)


def changed(name, change):
    case = make_case([(3, 1), (0, 2), (7, 1)])
    owner = case if hasattr(case, name) else case.batch
    setattr(owner, name, change(getattr(owner, name)))
    return case


def set_first(value):
    def change(tensor):
        tensor.view(-1)[0] = value
        return tensor

    return change


@pytest.mark.skipif(not INTERPRETED, reason="on a GPU, it would have to wait")
@pytest.mark.parametrize(
    ("name", "change", "match"),
    [
        ("block_tables", set_first(10**9), "block_tables must lie in 0 to"),
        ("block_tables", set_first(-1), "block_tables must lie in 0 to"),
        ("context_lengths", set_first(10**7), "context_lengths must lie in 0 to 8"),
        ("query_starts", lambda starts: starts + 1, "query_starts must lie in 0 to 0"),
        ("query_starts", lambda starts: starts // 2, "the end of query_starts must"),
    ],
)
def test_what_leads_out_of_the_cache_is_refused_by_the_interpreter(name, change, match):
    refuse(match, changed(name, change))


def test_float64_is_refused():
    case = make_case([(3, 1)], dtype=torch.float64)
    refuse(r"not torch.float64.*model.float.*gathered", case)


@pytest.mark.parametrize("name", ["q", "keys", "values"])
def test_mixed_dtypes_are_refused(name):
    refuse("want all the same", changed(name, torch.Tensor.half))


@pytest.mark.skipif(not INTERPRETED, reason="a GPU has bfloat16")
def test_bfloat16_is_refused_by_the_interpreter():
    case = make_case([(3, 1)], dtype=torch.bfloat16)
    refuse("float32 or float16.*gathered", case)
    model = copy.deepcopy(tiny_model("llama")).to(torch.bfloat16)
    with pytest.raises(ValueError, match="convert the model to float32"):
        mp.PagedModel(model, num_blocks=8, attention="triton")


def test_heads_that_do_not_divide_are_refused():
    refuse("3 query heads cannot share 2 KV", changed("q", lambda q: q[:, :3]))
    refuse("0 query heads cannot share 2 KV", changed("q", lambda q: q[:, :0]))


@pytest.mark.parametrize("name", ["keys", "values"])
def test_a_cache_with_gaps_is_refused(name):
    refuse(f"{name} to be contiguous.*KVCache", changed(name, gaps))


@pytest.mark.parametrize(
    ("name", "change", "match"),
    [
        ("q", lambda q: q[:, 0], r"q must be \[num_tokens, num_heads, key_dim\], got"),
        ("q", lambda q: q[..., :8], r"keys must be .*key_dim=8\], got \[.*, 16\]"),
        ("values", lambda v: v[:, :, :1].contiguous(), "values .*num_kv_heads=2"),
        ("values", lambda v: v[:, :2].contiguous(), "values .*block_size=4"),
        ("values", lambda v: v[:2], "values .*num_blocks=7"),
        (
            "block_tables",
            lambda tables: tables[0],
            "block_tables must be .*table_width",
        ),
        ("context_lengths", lambda lengths: lengths[:2], "num_sequences=3"),
        ("query_starts", lambda starts: starts[:3], "one entry more.*got 3 and 3"),
        ("block_tables", torch.Tensor.float, "block_tables .*not torch.float32"),
        ("context_lengths", torch.Tensor.double, "context_lengths .*not torch.float64"),
        ("query_starts", torch.Tensor.short, "query_starts .*not torch.int16"),
    ],
)
def test_what_does_not_fit_is_refused(name, change, match):
    refuse(match, changed(name, change))


@pytest.mark.parametrize("lengths", [[(3, 1)], [(3, 2)]], ids=["decode", "prefill"])
def test_options_without_meaning_are_refused(lengths):
    refuse("sliding_window is 0.*or None", make_case(lengths), sliding_window=0)
    refuse("softcap must not be 0; None", make_case(lengths), softcap=0.0)


@pytest.mark.parametrize("lengths", [[(3, 1)], [(3, 2)]], ids=["decode", "prefill"])
def test_sinks_of_other_heads_are_refused(lengths):
    case = moved(make_case(lengths), DEVICE)
    case.attend(triton_attention, sinks=sinks_of(4).to(DEVICE))
    with pytest.raises(ValueError, match=r"sinks must be \[num_heads=4\], got \[5\]"):
        case.attend(triton_attention, sinks=sinks_of(5).to(DEVICE))


@pytest.mark.parametrize("kernel", ["decode", "prefill"])
def test_where_the_result_does_not_fit_nothing_is_written(kernel):
    case = moved(make_case([(3, 1), (7, 1)]), DEVICE)
    where = case.batch.block_tables, case.batch.context_lengths, case.batch.query_starts
    tensors = case.q, case.keys, case.values, *where

    def attend(out, **options):
        if kernel == "decode":
            paged_decode(out, *tensors, 4, 8, 0.25, **options)
        else:
            paged_prefill(out, *tensors, 0.25)

    right = torch.full_like(case.q, 7.0)
    for out in (right[:1], right[:, :, :8].contiguous(), gaps(right)):
        with pytest.raises(ValueError, match=r"out must be|out to be contiguous"):
            attend(out)
        assert (out == 7).all()
    if kernel == "decode":
        with pytest.raises(ValueError, match="num_splits is -1; give 1 or more"):
            attend(right, num_splits=-1)
    attend(right)
    assert (right.cpu() - oracle(case, scale=0.25)).abs().max() < 3e-5


def test_tensors_on_the_cpu_are_refused_by_the_compiled_kernels(monkeypatch):
    monkeypatch.setattr(triton_check, "INTERPRETED", False)
    case = make_case([(3, 1)])
    with pytest.raises(ValueError, match=r"model.to\('cuda'\).*gathered.*INTERPRET"):
        case.attend(triton_attention)
    slots = torch.zeros(1, dtype=torch.int64)
    with pytest.raises(ValueError, match=r"keys on cpu.*run on the GPU"):
        write_kv(case.keys, case.values, slots, case.q[:, :2], case.q[:, :2])
    with pytest.raises(ValueError, match=r"copies on cpu.*run on the GPU"):
        copy_blocks([case.keys], torch.zeros(1, 2, dtype=torch.int64))


def test_different_devices_are_refused(monkeypatch):
    monkeypatch.setattr(triton_check, "INTERPRETED", True)
    here, elsewhere = torch.zeros(2), torch.zeros(2, device="meta")
    with pytest.raises(ValueError, match="one device; found a on cpu, b on meta"):
        triton_check.check_devices(a=here, b=elsewhere)


def test_an_empty_batch_is_an_empty_result():
    case = moved(make_case([(3, 1)]), DEVICE)
    case.q, batch = case.q[:0], case.batch
    case.batch = types.SimpleNamespace(
        block_tables=batch.block_tables[:0],
        context_lengths=batch.context_lengths[:0],
        query_starts=batch.query_starts[:1],
        max_query_length=0,
        min_context_length=0,
        max_context_length=0,
    )
    assert case.attend(triton_attention).shape == (0, 4, 16)


# What fills the cache.


def write(**changes):
    """Three tokens into a cache of 12 slots, with some argument changed."""
    torch.manual_seed(0)
    tensors = {
        "keys": torch.randn(4, 3, 2, 8),
        "values": torch.randn(4, 3, 2, 5),
        "slots": torch.tensor([5, -1, 11]),
        "new_keys": torch.randn(3, 2, 8),
        "new_values": torch.randn(3, 2, 5),
    }
    for name, change in changes.items():
        tensors[name] = change(tensors[name])
    tensors = {name: tensor.to(DEVICE) for name, tensor in tensors.items()}
    before = [tensors[name].clone() for name in ("keys", "values")]
    try:
        write_kv(**tensors)
    except ValueError:
        assert torch.equal(tensors["keys"], before[0])
        assert torch.equal(tensors["values"], before[1])
        raise
    return tensors["keys"].cpu(), tensors["values"].cpu()


@pytest.mark.parametrize(
    ("name", "change", "match"),
    [
        ("slots", lambda slots: slots[:2], r"new_keys must be \[num_tokens=2"),
        ("slots", lambda slots: slots.repeat(2), r"new_keys must be \[num_tokens=6"),
        ("slots", lambda slots: slots[None], r"slots must be \[num_tokens\], got"),
        ("slots", torch.Tensor.float, "slots must be int64 or int32"),
        ("new_keys", lambda new: new[:, :1], "new_keys .*num_kv_heads=2"),
        ("new_keys", lambda new: new[:, :, :5], "new_keys .*key_dim=8"),
        ("new_values", lambda new: new[:2], "new_values .*num_tokens=3"),
        ("new_values", lambda new: new.flatten(1), "new_values .*value_dim=5"),
        ("values", lambda values: values[:2], "values .*num_blocks=4"),
        ("keys", lambda keys: keys.flatten(0, 1), "keys must be"),
        ("keys", gaps, "keys to be contiguous"),
        ("values", gaps, "values to be contiguous"),
        ("new_keys", torch.Tensor.half, "convert them first"),
        ("new_values", torch.Tensor.half, "convert them first"),
        ("values", torch.Tensor.half, "convert them first"),
    ],
)
def test_a_write_that_would_spoil_the_cache_is_refused(name, change, match):
    with pytest.raises(ValueError, match=match):
        write(**{name: change})


@pytest.mark.skipif(not INTERPRETED, reason="a GPU does not wait to look at slots")
@pytest.mark.parametrize("shift", [1, -1, 10**9])
def test_slots_beyond_the_cache_are_refused_by_the_interpreter(shift):
    with pytest.raises(ValueError, match="slots must lie in -1 to 11, got"):
        write(slots=lambda slots: slots + shift)


def apart(tensor):
    """The same numbers, each followed by one that is no part of it."""
    return torch.stack([tensor, torch.full_like(tensor, 3)], -1)[..., 0]


@pytest.mark.parametrize("name", ["slots", "new_keys", "new_values"])
def test_what_is_written_may_have_any_strides(name):
    for ours, theirs in zip(write(**{name: apart}), write(), strict=True):
        assert torch.equal(ours, theirs)
    for ours, theirs in zip(write(slots=torch.Tensor.int), write(), strict=True):
        assert torch.equal(ours, theirs)


def copied(copies, change=lambda tensors: tensors):
    tensors = [torch.arange(24.0).view(4, 6), -torch.arange(12).view(4, 3)]
    tensors = [tensor.to(DEVICE) for tensor in change(tensors)]
    before = [tensor.clone() for tensor in tensors]
    try:
        copy_blocks(tensors, copies.to(DEVICE))
    except ValueError:
        assert all(map(torch.equal, tensors, before))
        raise
    return tensors


COPIES = torch.tensor([[2, 1], [2, 0]])


@pytest.mark.parametrize(
    ("copies", "change", "match"),
    [
        (COPIES[0], list, r"copies must be \[N, 2\].*got \[2\]"),
        (COPIES.repeat(1, 2), list, r"copies must be \[N, 2\].*got \[2, 4\]"),
        (COPIES.float(), list, "copies must be int64 or int32"),
        (COPIES, lambda tensors: [tensors[0], tensors[1][:2]], r"\[2, 4\] blocks"),
        (COPIES, lambda tensors: [tensors[0], gaps(tensors[1])], r"tensors\[1\] to be"),
    ],
)
def test_copies_that_would_spoil_the_cache_are_refused(copies, change, match):
    with pytest.raises(ValueError, match=match):
        copied(copies, change)


@pytest.mark.skipif(not INTERPRETED, reason="a GPU does not wait to look at block ids")
@pytest.mark.parametrize("shift", [2, -1, 10**9])
def test_blocks_beyond_the_cache_are_refused_by_the_interpreter(shift):
    with pytest.raises(ValueError, match="copies must lie in 0 to 3, got"):
        copied(COPIES + shift)


@pytest.mark.parametrize("change", [apart, gaps, torch.Tensor.int])
def test_copies_may_have_any_strides(change):
    first, second = copied(change(COPIES))
    for tensor in (first, second):
        assert torch.equal(tensor[:2], tensor[2].expand(2, -1))


def test_without_tensors_there_is_nothing_to_copy():
    assert copied(COPIES, lambda tensors: []) == []
