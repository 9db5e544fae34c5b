"""Appendix D: kernels that are compiled side by side, before they are launched.

Triton compiles a kernel at its first launch, while other kernels wait. That takes up to
seconds for each kernel, nearly all of it in LLVM and in NVIDIA's assembler, which let
other threads of Python go on. So a step is made once just to learn its kernels and
their types; then as many are compiled at a time as there are processors.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from inspect import signature
from threading import Lock, get_ident
from typing import Any

from minipaged.attention.kernels.setup import INTERPRETED, triton
from minipaged.progress import progress_bar

_alone = Lock()  # one thread at a time exchanges what Triton does at a launch


@contextmanager
def compiled_side_by_side() -> Iterator[None]:
    """Within this block, kernels that this thread launches are compiled, but not run.

    So they write no results, and the block must not read any. At the end of the block
    all are compiled, and the next launch finds them. A kernel that cannot be compiled
    raises at the next launch. Kernels of other threads run. If Triton interprets, or is
    too old to go on after a thread has failed, the block runs its kernels as ever.
    """
    known = signature(triton.AsyncCompileMode).parameters
    if INTERPRETED or "ignore_errors" not in known:  # before Triton 3.6
        yield
        return
    mine, threads = get_ident(), ThreadPoolExecutor(os.cpu_count())
    mode = triton.AsyncCompileMode(threads, ignore_errors=True)
    with _alone, threads, mode:
        launch = triton.JITFunction.run

        def compile_mine(kernel: Any, *given: Any, warmup: bool, **options: Any) -> Any:
            if get_ident() != mine:
                return launch(kernel, *given, warmup=warmup, **options)
            launch(kernel, *given, warmup=True, **options)
            return None  # as from an interpreted kernel: there is nothing to keep yet

        triton.JITFunction.run = compile_mine
        try:
            yield
        finally:
            triton.JITFunction.run = launch
        number = {"total": len(mode.raw_futures), "unit": " kernels"}
        ends = as_completed(mode.raw_futures)
        for _ in progress_bar(ends, desc="compile kernels", **number):
            pass
