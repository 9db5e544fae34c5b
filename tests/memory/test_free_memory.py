"""More blocks than memory are refused with the sum, and what fits is not refused."""

import math

import pytest
import torch

import minipaged as mp
from helpers.tiny_models import tiny_model
from minipaged.memory import free_memory as memory
from minipaged.memory import kv_cache
from minipaged.memory.free_memory import free_memory, room_for
from minipaged.memory.swap_space import SwapSpace

GB = 10**9
SHAPES = [(2, 64, 64)] * 4
BYTES = 4 * 2 * 128 * 16 * 4  # of a block of 16
MEMINFO = "MemTotal: 9 kB\nMemAvailable: 4000000 kB\nSwapFree: 1000 kB\nHugePages: 0\n"


def machine(root, groups, **files):
    """A file system that says of memory what a Linux says."""
    files = {"proc/meminfo": MEMINFO, "proc/self/cgroup": groups} | files
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def group(folder, version, limit, used, files):
    """What a group of processes says of its memory."""
    names = {
        2: ("memory.max", "memory.current", ""),
        1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_"),
    }
    limit_name, used_name, total = names[version]
    stat = f"anon 1\n{total}inactive_file {files - 1000}\n{total}active_file 1000\n"
    return {
        f"{folder}/{limit_name}": f"{limit}\n",
        f"{folder}/{used_name}": f"{used}\n",
        f"{folder}/memory.stat": stat,
    }


TOP = "sys/fs/cgroup"
ALL_FREE = 4_000_000 * 1024
LEFT = 2 * GB - 1 * GB + 300_000_000
MACHINES = {
    "no limit": ("0::/\n", {}, ALL_FREE),
    "a container": ("0::/\n", group(TOP, 2, 2 * GB, GB, 300_000_000), LEFT),
    "a limit of max": ("0::/\n", group(TOP, 2, "max", GB, 300_000_000), ALL_FREE),
    "a group far below": (
        "0::/user/of/this\n",
        group(f"{TOP}/user", 2, 2 * GB, GB, 300_000_000)
        | group(f"{TOP}/user/of", 2, 3 * GB, GB, 300_000_000),
        LEFT,
    ),
    "version 1": (
        "5:cpu:/\n4:memory,hugetlb:/docker/12ab\n0::/\n",
        group(f"{TOP}/memory/docker/12ab", 1, 2 * GB, GB, 300_000_000)
        | group(f"{TOP}/memory", 1, 2**63 - 4096, GB, 300_000_000),
        LEFT,
    ),
    "version 1 from inside": (
        "4:memory:/docker/12ab\n",
        group(f"{TOP}/memory", 1, 2 * GB, GB, 300_000_000),
        LEFT,
    ),
    "more in use than allowed": ("0::/\n", group(TOP, 2, GB, 3 * GB, 1000), 0),
}


@pytest.mark.parametrize("name", MACHINES)
def test_what_is_free_is_what_the_machine_and_the_container_leave(tmp_path, name):
    groups, files, free = MACHINES[name]
    swap = 1_024_000 if free not in (LEFT, 0) else 0  # a container has none of it
    assert free_memory(machine(tmp_path, groups, **files)) == free + swap


def test_without_linux_it_is_all_that_there_is(tmp_path, monkeypatch):
    sizes = {"SC_PHYS_PAGES": 1000, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr("os.sysconf", sizes.__getitem__)
    assert free_memory(tmp_path) == 4_096_000
    monkeypatch.delattr("os.sysconf")  # Windows
    assert free_memory(tmp_path) == math.inf


def test_this_machine_says_something():
    assert 2**20 < free_memory() < 2**60
    assert 2**20 < memory.resident_memory() < 2**50


@pytest.fixture
def little(monkeypatch):
    """A machine with a gigabyte left."""
    for module in (kv_cache, "minipaged.memory.block_pool", SwapSpace.__module__):
        monkeypatch.setattr(
            f"{getattr(module, '__name__', module)}.free_memory", lambda: GB
        )


def test_of_a_gpu_what_torch_holds_and_does_not_use_is_free(monkeypatch):
    said = {
        "mem_get_info": (5 * GB, 80 * GB),
        "memory_reserved": 9 * GB,
        "memory_allocated": 7 * GB,
    }
    for name, number in said.items():
        monkeypatch.setattr(torch.cuda, name, lambda device, number=number: number)
    assert kv_cache.free_on(torch.device("cuda:0")) == 7 * GB
    assert kv_cache.free_on(torch.device("meta")) == math.inf


FITS = GB // BYTES


def nothing_is_taken(*args, **options):
    raise AssertionError("memory was taken before anybody asked whether there is any")


@pytest.mark.parametrize("num_blocks", [FITS + 1, 10**15, 2**63, 10**30, 10**400])
def test_a_cache_too_large_is_refused_before_anything_is_taken(
    little, monkeypatch, num_blocks
):
    monkeypatch.setattr(torch, "empty", nothing_is_taken)
    words = r"blocks of 65,536 bytes take .* GB, and cpu has 1\.0 GB free; lower num_b"
    with pytest.raises(MemoryError, match=words):
        mp.KVCache(SHAPES, num_blocks, 16)


def test_what_fits_is_not_refused(little):
    cache = mp.KVCache(SHAPES, FITS, 16)
    assert cache.num_blocks * cache.bytes_per_block > GB - BYTES


def test_a_model_over_too_many_blocks_says_the_sum(little):
    per = mp.PagedModel(tiny_model("llama"), 8).cache.bytes_per_block
    number = 3 * GB // per
    with pytest.raises(MemoryError, match=rf"{number:,} blocks of {per:,} .* 3\.0 GB"):
        mp.PagedModel(tiny_model("llama"), num_blocks=number)


def test_a_swap_space_counts_what_the_cache_was_promised(little, monkeypatch):
    cache = mp.KVCache(SHAPES, FITS * 2 // 3, 16)
    cache.resident_before = 0
    monkeypatch.setattr(SwapSpace.__module__ + ".resident_memory", lambda: 0)
    SwapSpace(cache, FITS // 4)
    with pytest.raises(MemoryError, match=r"and the CPU has 0\.3 GB free; lower swap_"):
        SwapSpace(cache, FITS // 2)
    # All of the cache may be written by now: then what is free is free.
    monkeypatch.setattr(SwapSpace.__module__ + ".resident_memory", lambda: GB)
    SwapSpace(cache, FITS // 2)


@pytest.mark.parametrize("num_blocks", [GB, 10**15, 10**30])
def test_a_pool_too_large_for_pythons_lists(little, num_blocks):
    with pytest.raises(MemoryError, match=r"entries of 48 .* 1\.0 GB free; lower num_"):
        mp.BlockPool(num_blocks, 16)


def raising(error):
    def work():
        with room_for(3, 2**62, math.inf, "the GPU"):
            raise error

    return work


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OverflowError("cannot fit 'int' into an index-sized integer"),
        RuntimeError("Storage size calculation overflowed with sizes=[3]"),
        TypeError("empty(): Overflow when unpacking long long"),
    ],
)
def test_what_others_say_of_memory_is_said_in_words(error):
    with pytest.raises(MemoryError, match=r"3 blocks .* and the GPU has no room for"):
        raising(error)()


def test_another_error_stays_what_it_is():
    with pytest.raises(RuntimeError, match="a driver"), room_for(3, 8, math.inf):
        raise RuntimeError("a driver is missing")
