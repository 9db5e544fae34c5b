"""Lab: a kernel beside the best peer of each of many batches; a dot for each."""

from collections.abc import Mapping
from typing import Any

from minipaged.draw.picture import Picture
from minipaged.draw.tones import sign_of
from minipaged.lab.measure.peer_tables import NAMES
from minipaged.lab.plots.render import Figure, render


def plot_batches(batches: Mapping[str, Mapping[str, Any]], title: str) -> Figure:
    """A group for each report, a dot for each batch: our time over its best peer's.

    Ours is `step_kernel`, the default launch; a dot's sign says who the best peer is.
    Up and down says nothing: dots give way to each other. At the right is the share of
    the batches in which ours takes as much time or less: as the report has it, which
    counted before it rounded.

    batches: by name, what `measured_batches` describes.
    """
    picture = Picture(title)
    rows = [row for report in batches.values() for row in report["batches"].values()]
    best = {row["best_peer"] for row in rows}
    signs = {peer: sign_of(at, 6.4) for at, peer in enumerate(NAMES) if peer in best}
    peers = [(sign, NAMES[peer]) for peer, sign in signs.items()]
    picture.legend(*peers, verdict="The best peer")
    for name, report in batches.items():
        found, rows = report["summary"]["step"], report["batches"].values()
        share, number = found["at_most_1.00"], len(rows)
        remark = "in the mean {geometric_mean:.2f}, at most {largest:.2f}"
        remark = remark.format(**found)
        verdict = f"{100 * share:.0f} %: {round(share * number)} of {number}"
        picture.headline(name, remark, verdict + " equal or less")
        lane = picture.lane(height=64.0)
        for row in rows:
            lane.dots([row["step_over_best_peer"]], signs[row["best_peer"]])
    xlabel = "our time / the best peer's, batch by batch (logarithmic axis)"
    xlabel += "; ours takes less time ← equal → more"
    picture.axis(xlabel, is_logarithmic=True, marks={1.0: "equal"})
    return render(picture.scene())
