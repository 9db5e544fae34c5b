"""Lab: what a program's warps, its matrix unit and its copies do over time."""

from collections.abc import Mapping, Sequence

from minipaged.draw.palette import BAD, GOOD
from minipaged.draw.picture import Picture
from minipaged.draw.tones import KEPT, others, soft, strong
from minipaged.lab.plots.render import Figure, render
from minipaged.lab.tour.warps import Machine, Span

LANES = {"copy": "copies", "product": "matrix unit"}  # else: the warps that weigh


def plot_warps(runs: Mapping[str, Machine], title: str) -> Figure:
    """Lanes for each run: copies, the matrix unit, and each of the warps that weigh.

    Warps have one colour, in their own lane and on the matrix unit. All runs have the
    same scale.
    """
    picture = Picture(title)
    end = max(span.stop for run in runs.values() for span in run.spans)
    shares = {name: run.busy() for name, run in runs.items()}
    for name, run in runs.items():
        colour = None
        if len(runs) > 1 and shares[name] in (
            min(shares.values()),
            max(shares.values()),
        ):
            colour = GOOD if shares[name] == max(shares.values()) else BAD
        verdict = f"the matrix unit works {shares[name]:.0%} of the time"
        picture.headline(name, verdict=verdict, colour=colour)
        readers = [span.who for span in run.spans if span.kind == "product"]
        tones = {who: strong(at) for at, who in enumerate(dict.fromkeys(readers))}
        lanes: dict[str, list[Span]] = {lane: [] for lane in LANES.values()}
        for span in run.spans:
            lanes.setdefault(LANES.get(span.kind, span.who), []).append(span)
        for label, spans in lanes.items():
            lane = picture.lane(label, height=22.0, apart=5.0)
            for span in sorted(spans, key=lambda span: span.start):
                tone = others() if span.kind == "copy" else tones[span.who]
                word = f"weighs {span.what}" if span.kind == "weigh" else span.what
                lane.bar(span.start, span.stop, tone, word)
    picture.axis("units of time", highest=end, is_bare=True)
    said = "K2: tile 2 of K is copied, or multiplied; a product has the colour"
    picture.text(f"{said} of the warps that started it")
    return render(picture.scene())


def plot_pieces(runs: Mapping[str, Sequence[Sequence[int]]], title: str) -> Figure:
    """A panel for each run: which pieces each multiprocessor takes, one after another.

    runs: by name, for each multiprocessor the tiles of its pieces, in order.
    """
    picture = Picture(title)
    ends = {name: max(map(sum, run)) for name, run in runs.items()}
    for name, run in runs.items():
        end = ends[name]
        colour = BAD if end == max(ends.values()) else GOOD
        idle = 1 - sum(map(sum, run)) / (end * len(run))
        verdict = f"{end} tiles until the end, {idle:.0%} idle"
        picture.headline(name, verdict=verdict, colour=colour)
        for number, pieces in enumerate(run):
            lane, start = (
                picture.lane(f"multiprocessor {number}", height=18.0, apart=4.0),
                0,
            )
            for nth, tiles in enumerate(pieces):
                tone = strong(0) if nth % 2 == 0 else soft(0)
                lane.bar(start, start + tiles, tone, str(tiles))
                start += tiles
            lane.bar(start, end, KEPT)
    picture.axis("tiles", highest=max(ends.values()), is_bare=True)
    picture.legend((strong(0), "a piece, and how many tiles it has"), (KEPT, "idle"))
    return render(picture.scene())
