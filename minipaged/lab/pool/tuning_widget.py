"""Lab: choose a launch's sizes; see what was measured with them, and what is short."""

from collections.abc import Mapping
from html import escape

import ipywidgets as widgets

from minipaged.draw.letters import counted
from minipaged.lab.measure.launches import HELPS, Bar, Launch, launch_of, ran
from minipaged.lab.measure.measured import SIZES, Tuning
from minipaged.lab.pool.controls import button, one_of, row
from minipaged.lab.pool.guide import Frame as Said
from minipaged.lab.pool.html import parts, story
from minipaged.lab.pool.page import Page

USED = "background:var(--c);border-right:1px solid var(--ground)"
UNUSED = "background:color-mix(in srgb,var(--c) 40%,var(--ground))"
UNUSED += ";border-right:1px solid var(--ground)"
FIELD = (
    "flex:1 1 200px;height:22px;display:flex;position:relative;background:var(--free)"
)
MARK = "position:absolute;top:-4px;bottom:-4px;border-left:{wide} solid var(--ink)"
WIDE = "2px", "1px"  # marks: the least, or the best; and the aim
LINE = "display:flex;flex-wrap:wrap;gap:2px 12px;align-items:center;margin:9px 0"
NAME, SAID = "flex:0 0 156px", "flex:0 0 190px"  # beside a bar
DIMMED = "--c:var(--edge);--ink:var(--quiet);--wrong:var(--quiet);color:var(--quiet)"
ENOUGH = 0.8  # of the aim: more splits bring no more
MANY_WARPS = 8  # whose threads have little to do each
LATE = "While other cells run, Launch waits for them."
CHOSEN = Said(
    "Press Launch to see what these sizes take.",
    "The bars are still those of the launch before.",
)


class TuningWidget(Page):
    """Four rows of buttons, and what was measured with these sizes."""

    def __init__(self, tuning: Tuning, batch: str, first: Mapping[str, int]):
        """tuning: as `measured_tuning`; first: the sizes to begin with, by SIZES."""
        self.tuning, self.batch = tuning, batch
        self.first = {size: first[size] for size in SIZES}
        self.launches = ran(tuning, batch)
        self.tried: dict[tuple[int, ...], Launch] = {}
        self.rows = {
            size: one_of(self._names(size), value) for size, value in self.first.items()
        }
        self.go = button("Launch", self.draw, "see what these sizes took")
        self.go.add_class("mp-go")
        self.anew = button("Start over", self.start, "forget what was tried")
        self.said, self.stage, self.history = (widgets.HTML() for _ in range(3))
        note = widgets.HTML(f"<small>{LATE}</small>")
        head = row(*self.rows.values(), row(self.go, self.anew, note), kind="mp-head")
        seen = self.said, self.stage, self.history
        super().__init__(head, *seen)
        self.draw()
        for made in self.rows.values():
            made.observe(lambda _: self._show(), "value")

    def draw(self) -> None:
        """Show the launch with the sizes that are chosen, and count it."""
        sizes = self._chosen
        launch = launch_of(self.tuning, self.batch, **sizes)
        key = tuple(sizes.values())
        self.tried.pop(key, None)  # so that the last one is the one that is shown
        self.tried[key] = launch
        self._show()
        turns = [[_told(*one)] for one in self.tried.items()]
        self.history.value = story.log(turns, "launch")

    def start(self) -> None:
        """Forget what was tried; back to the first sizes."""
        for size, made in self.rows.items():
            made.value = self.first[size]
        self.tried.clear()
        self.draw()

    @property
    def _chosen(self) -> dict[str, int]:
        return {size: made.value for size, made in self.rows.items()}

    @property
    def _last(self) -> dict[str, int]:
        return dict(zip(SIZES, list(self.tried)[-1], strict=True))

    def _show(self) -> None:
        """The last launch; dimmed, with no verdict, once other sizes are chosen."""
        sizes, launch = list(self.tried.items())[-1]
        is_old = sizes != tuple(self._chosen.values())
        self.said.value = story.say(CHOSEN if is_old else self._tell(launch))
        style = f' style="{DIMMED}"' * is_old
        bars = "".join(map(_line, launch.bars()))
        self.stage.value = f'<div class="{parts.colour("A")}"{style}>{bars}</div>'

    def _names(self, size: str) -> dict[str, int]:
        """What can be chosen: "1 warp", "2 warps"."""
        values, word = {row[size] for row in self.launches}, size.removeprefix("num_")
        one = word.removesuffix("s")
        return {
            f"tile {n}" if word == "tile" else counted(n, one): n
            for n in sorted(values)
        }

    def _tell(self, launch: Launch) -> Said:
        """What it is short of; how near the best one is that was tried.

        What helps against its first fault. If it has none, and is slow nevertheless,
        how far from the aim it is, and what may help.
        """
        best = max(one.percent for one in self.tried.values())
        said = f"Tried: {len(self.tried)} of {len(self.launches)}. "
        if launch.is_near_best:
            said += "This one is within 5 % of the best of all."
        else:
            said += f"Your best reaches {best:.0f} % of the ceiling."
            if launch.faults:
                said = f"Try {HELPS[launch.faults[0]]}. {said}"
            else:
                way = f"{launch.under_way:.1f} MB; the aim: {launch.aim:.0f}."
                said = f"Under way: {way} {self._advise(launch)}{said}"
        return Said(f"{launch.us:,} µs: {launch.verdict}.", said)

    def _advise(self, launch: Launch) -> str:
        """What to change of the last launch, which is slow without a fault."""
        if launch.is_beyond:
            return f"Try {self._less()}. "
        sizes = self._last
        is_split = sizes["num_splits"] > 1
        is_enough = launch.under_way > ENOUGH * launch.aim
        tries = {
            "fewer warps": sizes["num_warps"] == MANY_WARPS,
            "fewer splits": is_split and len(launch.waves) > 1,
            "more stages": sizes["num_stages"] == 1,  # nothing is ahead
            "wider tiles in fewer splits": is_split and is_enough,
        }
        return next((f"Try {words}. " for words, helps in tries.items() if helps), "")

    def _less(self) -> str:
        """Two changes of the last launch that leave less under way, if there are."""
        less = {
            "num_splits": "fewer splits",
            "num_stages": "fewer stages",
            "tile": "narrower tiles",
        }
        least = {size: min(row[size] for row in self.launches) for size in less}
        can = [words for size, words in less.items() if self._last[size] > least[size]]
        return " or ".join(can[:2])

    def tell(self) -> str:
        """The first launch in words."""
        launch = launch_of(self.tuning, self.batch, **self.first)
        lines = ["A launch (run the cell to choose its sizes)", f"{self.first}"]
        lines += [f"{bar.name:14} {bar.said:28} {bar.remark}" for bar in launch.bars()]
        lines.append(f"{launch.us:,} µs: {launch.verdict}")
        return "\n".join(lines)


def _told(sizes: tuple[int, ...], launch: Launch) -> str:
    """A launch in one line: "tile 16, 4 warps, 1 stage, 1 split: 404.9 µs, ..."."""
    tile, warps, stages, splits = sizes
    counts = {"warp": warps, "stage": stages, "split": splits}
    words = ", ".join(counted(number, what) for what, number in counts.items())
    return f"tile {tile}, {words}: {launch.us:,} µs, {launch.verdict}"


def _line(bar: Bar) -> str:
    """A bar, its name at the left, and what it says at the right."""
    cells = [(USED, part) for part in bar.used] + [
        (UNUSED, part) for part in bar.unused
    ]
    inner = "".join(
        f'<i style="width:{100 * part:.2f}%;{face}"></i>' for face, part in cells
    )
    for mark, wide in zip(bar.marks, WIDE, strict=False):
        inner += f'<i style="{MARK.format(wide=wide)};left:{100 * mark:.1f}%"></i>'
    words = escape(f"{bar.name}: {bar.said} ({bar.remark})")
    drawn = f'<div style="{FIELD}" role="img" aria-label="{words}">{inner}</div>'
    name = f"<b>{escape(bar.name)}</b><br><small>{escape(bar.remark)}</small>"
    kind = ' class="mp-wrong"' * bar.is_bad
    name = f'<div style="{NAME}">{name}</div>'
    said = f'<div style="{SAID}"{kind}>{escape(bar.said)}</div>'
    return f'<div style="{LINE}">{name}{drawn}{said}</div>'
