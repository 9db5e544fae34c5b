"""Lab: pictures, in one palette that the colour-blind can read (Okabe and Ito's)."""

from collections.abc import Mapping

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from minipaged.memory.waste import KINDS, WasteReport

# What a slot is used for: colour, hatch (so that it also reads in grey), label.
KIND_STYLE = {
    "token_states": ("#0072B2", "", "token states"),
    "reserved": ("#56B4E9", "//", "reserved for later tokens"),
    "internal": ("#D55E00", "..", "never used (internal)"),
    "external": ("#C8C8C8", "", "free but unusable (external)"),
}


def plot_waste(reports: Mapping[str, WasteReport], title: str) -> Figure:
    """One bar per report, split into the four kinds of the paper's figure 2."""
    figure, axes = plt.subplots(figsize=(8, 0.6 * len(reports) + 1.6))
    for row, report in enumerate(reports.values()):
        left = 0.0
        for kind in KINDS:
            colour, hatch, _ = KIND_STYLE[kind]
            share = 100 * getattr(report, kind)
            axes.barh(
                row, share, left=left, color=colour, hatch=hatch, edgecolor="white"
            )
            if share >= 5:
                label = {"ha": "center", "va": "center", "fontsize": 9}
                box = {"boxstyle": "round,pad=0.2", "fc": "white", "ec": "none"}
                axes.text(left + share / 2, row, f"{share:.1f}", bbox=box, **label)
            left += share
    axes.set_yticks(range(len(reports)), list(reports))
    axes.invert_yaxis()
    axes.set(xlim=(0, 100), xlabel="share of the KV memory (%)")
    axes.set_title(title, loc="left", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    handles = [plt.Rectangle((0, 0), 1, 1, fc=c, hatch=h, ec="white")
               for c, h, _ in KIND_STYLE.values()]  # fmt: skip
    labels = [label for *_, label in KIND_STYLE.values()]
    axes.legend(handles, labels, ncols=2, frameon=False, fontsize=9,
                loc="upper center", bbox_to_anchor=(0.5, -0.22))  # fmt: skip
    figure.set_facecolor("white")
    return figure
