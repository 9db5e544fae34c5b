"""Draw what lesson 6's kernel reads per second, beside others and the ceiling."""

import matplotlib.pyplot as plt

from minipaged.lab.measured import measured_kernels
from minipaged.lab.palette import SEQUENCE_COLOURS, Theme

SHAPE = "32 query heads, 8 KV heads, 128"
SERIES = {  # colour, hatch: told apart in grey too
    "cuDNN, contiguous": ("#C3CAD1", ""),
    "this package, paged": (SEQUENCE_COLOURS[0], ""),
    "FlashInfer, paged": (SEQUENCE_COLOURS[1], "//"),
}


def draw_kernels(look: Theme) -> plt.Figure:
    """GB/s of K and V in decode, cell by cell, as stored by the benchmark."""
    report = measured_kernels()
    ceiling = report["ceilings"]["read_gb_per_s"]
    cells = report["decode"][SHAPE]
    times = {
        "cuDNN, contiguous": [c["cudnn_contiguous"] for c in cells.values()],
        "this package, paged": [c["paged"] for c in cells.values()],
        "FlashInfer, paged": [c["peers"].get("flashinfer") for c in cells.values()],
    }
    sizes = [cell["kv_megabytes"] for cell in cells.values()]
    figure, axes = plt.subplots(figsize=(9, 4.2), layout="constrained")
    figure.set_facecolor(look.ground)
    axes.set_facecolor(look.ground)
    for place, (name, (colour, hatch)) in enumerate(SERIES.items()):
        rates = [
            1e3 * mb / us if us else 0
            for mb, us in zip(sizes, times[name], strict=True)
        ]
        places = [cell + 0.27 * (place - 1) for cell in range(len(cells))]
        bars = {"color": colour, "hatch": hatch, "edgecolor": look.ground}
        axes.bar(places, rates, width=0.27, label=name, **bars)
    axes.axhline(ceiling, color=look.ink, linestyle="--", linewidth=1)
    axes.text(-0.4, ceiling * 1.01, f"reading alone: {ceiling:,} GB/s", color=look.ink)
    title = "Paged decode reads large caches at over nine tenths of the memory's speed"
    axes.set_title(title, loc="left", fontsize=13, color=look.ink, pad=14)
    machine = report["machine"]
    axes.set_xlabel(
        f"sequences x context; {SHAPE}; bfloat16, {machine['device']}, torch "
        f"{machine['torch']}, Triton {machine['triton']}, {machine['date']}",
        color=look.quiet,
    )
    axes.set_ylabel("GB/s of K and V", color=look.ink)
    axes.set_xticks(range(len(cells)), cells, color=look.ink)
    axes.tick_params(colors=look.ink)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(look.quiet)
    axes.legend(
        frameon=False, labelcolor=look.ink, loc="upper left", bbox_to_anchor=(0, 0.93)
    )
    return figure
