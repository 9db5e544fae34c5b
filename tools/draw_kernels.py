"""Draw what lesson 6's kernel reads per second, beside others and the ceiling."""

import matplotlib.pyplot as plt

from minipaged.draw.palette import SEQUENCE_COLOURS, Theme
from minipaged.lab.measure.measured import measured_kernels

SHAPE = "32 query heads, 8 KV heads, 128"
SERIES = {  # microseconds, of a cell; colour, hatch: told apart in grey too
    "cuDNN, contiguous": (lambda c: c["cudnn_contiguous"], "#C3CAD1", ""),
    "this package, paged": (lambda c: c["paged"], SEQUENCE_COLOURS[0], ""),
    "FlashInfer, paged": (
        lambda c: c["peers"].get("flashinfer"),
        SEQUENCE_COLOURS[1],
        "//",
    ),
    "FlashAttention-3 in vLLM, paged": (
        lambda c: c["peers"].get("vllm_flash_attention"),
        SEQUENCE_COLOURS[2],
        "..",
    ),
}
WIDTH = 0.2  # of a bar


def draw_kernels(look: Theme) -> plt.Figure:
    """GB/s of K and V in decode, cell by cell, as stored by the benchmark."""
    report = measured_kernels()
    ceiling = report["ceilings"]["read_gb_per_s"]
    cells = report["decode"][SHAPE]
    figure, axes = plt.subplots(figsize=(9, 4.2), layout="constrained")
    figure.set_facecolor(look.ground)
    axes.set_facecolor(look.ground)
    for place, (name, (time_of, colour, hatch)) in enumerate(SERIES.items()):
        times = [(cell["kv_megabytes"], time_of(cell)) for cell in cells.values()]
        rates = [1e3 * mb / us if us else 0 for mb, us in times]
        places = [cell + WIDTH * (place - 1.5) for cell in range(len(cells))]
        bars = {"color": colour, "hatch": hatch, "edgecolor": look.ground}
        axes.bar(places, rates, width=WIDTH, label=name, **bars)
    axes.axhline(ceiling, color=look.ink, linestyle="--", linewidth=1)
    axes.text(-0.4, ceiling * 1.01, f"reading alone: {ceiling:,} GB/s", color=look.ink)
    axes.set_ylim(0, 1.08 * ceiling)
    title = (
        "From a gigabyte on, paged decode has over nine tenths of the memory's speed"
    )
    axes.set_title(title, loc="left", fontsize=13, color=look.ink, pad=30)
    machine = report["machine"]
    axes.set_xlabel(
        f"sequences x context; {SHAPE}; bfloat16, {machine['device']}, torch "
        f"{machine['torch']}, Triton {machine['triton']}, {machine['date']}",
        color=look.quiet,
    )
    axes.set_ylabel("GB/s of K and V", color=look.ink)
    names = [name.replace("x128..4096", " ragged") for name in cells]
    axes.set_xticks(range(len(cells)), names, color=look.ink)
    axes.tick_params(colors=look.ink)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(look.quiet)
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.legend(
        frameon=False,
        labelcolor=look.ink,
        loc="lower left",
        ncols=len(SERIES),
        bbox_to_anchor=(-0.01, 1.0),
        columnspacing=1.2,
        handlelength=1.4,
    )
    return figure
