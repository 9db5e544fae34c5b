"""How fast this GPU reads, copies and multiplies: the ceilings."""

import torch

from minipaged.lab.measure.gpu_timing import microseconds, read_gb_per_s


def ceilings() -> dict[str, float]:
    """Of this GPU: GB/s and TFLOP/s."""
    source, target = torch.randn(2, 2**29, device="cuda")  # 2 GiB each
    # Not copy_: a graph leaves that to the copy engine, which is slower.
    copy = microseconds([lambda: torch.mul(source, 1.0, out=target)] * 3)
    a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    matmul = microseconds([lambda: a @ a] * 3)
    return {
        "read_gb_per_s": read_gb_per_s(),
        "copy_gb_per_s": round(2 * source.nbytes / copy / 1e3),  # read, and written
        "matmul_tflop_per_s": round(2 * 8192**3 / matmul / 1e6),
    }
