"""The pool that a page shows, and where the page contradicts itself: in sentences.

Each number on the page is compared with what else the page shows: blocks with tables,
titles with texts, figures with counts, colours with colours.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, Page

from helpers.page_facts import ask, ask_in_each_text
from helpers.real_lab import set_width

_SCRIPT = Path(__file__).with_name("pool_facts.js").read_text("utf-8")


def shown_pool(root: Locator) -> dict[str, Any]:
    """The pool as the page shows it: blocks, tables, rows, figures and colours."""
    return ask(root, "shownPool", _SCRIPT)


def pale_blocks(root: Locator) -> list[str]:
    """Blocks whose rim, or whose filled part's end, is hardly seen: contrasts below 3.

    WCAG 2.2, 1.4.11. A hatch need not be seen: the holders' letters say the same.
    """
    return ask(root, "paleBlocks", _SCRIPT)


def tops_of_stage(root: Locator) -> dict[str, float]:
    """How far the pool is below the widget's top, for each way of writing the page."""
    return ask_in_each_text(root, "topOfStage", _SCRIPT)


def tops_in_each_width(
    page: Page, widths: Sequence[int]
) -> dict[tuple[int, str], float]:
    """The same of the page's first widget, for each width and each way of writing."""
    root, tops = page.locator(".mp.widget-box").first, {}
    for width in widths:
        set_width(page, width)
        for text, top in tops_of_stage(root).items():
            tops[width, text] = top
    return tops


def contradictions(pool: dict[str, Any]) -> list[str]:
    """Where two places on the page say different things of the same pool."""
    blocks, flaws = pool["blocks"], []

    def same(what: str, said: Any, true: Any) -> None:
        if said != true:
            flaws.append(f"{what}: {said} is said, and {true} is shown")

    held = [block for block in blocks if block["holders"]]
    of_all = [len(held), len(blocks)]
    same("blocks in a row", [block["id"] for block in blocks], list(range(len(blocks))))
    same("the list's name", _numbers(*pool["label"]), of_all)
    holders: dict[int, list[str]] = {block["id"]: [] for block in blocks}
    for table in pool["tables"]:
        for entry in table["entries"]:
            if entry != "…":
                holders[int(entry)].append(table["name"])
    has_all = all("…" not in table["entries"] for table in pool["tables"])
    empty = 0
    for block in blocks:
        what, title = f"block {block['id']}", block["title"]
        number, owners = block["holders"], sorted(holders[block["id"]])
        if has_all:
            same(f"{what}'s holders", number, len(owners))
        same(f"{what}'s title", title.startswith(f"{what}: "), True)
        said = re.search(r"held by ([A-Z0-9, ]+);", title)
        same(f"{what}'s title", bool(said), bool(number))
        same(f"{what}'s title", "free" in title, not number)
        if said and has_all:
            same(f"{what}'s title", sorted(said[1].split(", ")), owners)
        several = re.search(r"(\d+) holders", title)
        same(f"{what}'s title", int(several[1]) if several else min(number, 1), number)
        if block["number"] is not None:
            same(f"{what}'s number", block["number"], str(block["id"]))
        if block["isLarge"]:
            same(f"{what}'s letters", len(block["letters"]) + block["more"], number)
            same(f"{what}'s letters", {*block["letters"]} <= {*owners}, True)
        same(f"{what}'s hatch", block["hatched"], number > 1)
        same(f"{what}'s rim", block["dashed"], "can still be found" in title)
        if filled := re.search(r"(\d+) of (\d+) slots", title):
            empty += int(filled[2]) - int(filled[1])
    if pool["figures"]:
        of_held, *of_unshared, of_empty = map(_numbers, pool["figures"])
        same("the figure of blocks held", of_held, of_all)
        if has_all and of_unshared:
            entries = sum(len(table["entries"]) for table in pool["tables"])
            same("the figure of unshared blocks", of_unshared, [[entries]])
        same("the figure of empty slots", of_empty[0], empty)
    lengths = {table["name"]: len(table["entries"]) for table in pool["tables"]}
    for row in [*pool["rows"], *pool["names"]]:
        found = re.match(r"([A-Z]\d*) \d+ tokens?(?:,| in) (\d+) blocks?$", row)
        same(f"{row!r}", bool(found), True)
        if found and has_all:
            same(f"{found[1]}'s blocks", int(found[2]), lengths.get(found[1], 0))
    return flaws + _of_pieces(pool["pieces"])


def _of_pieces(pieces: list[dict[str, Any]]) -> list[str]:
    """In contiguous memory, each piece stands where its numbers say, and as wide."""
    flaws, at = [], 0
    sizes = [_numbers(piece["title"]) for piece in pieces]
    every = sum(size[1] - size[0] + 1 for size in sizes)
    width = sum(piece["width"] for piece in pieces)
    for piece, (first, last, *_) in sorted(
        zip(pieces, sizes, strict=True), key=lambda pair: pair[0]["left"]
    ):
        if first != at:
            flaws.append(f"{piece['title']!r} is shown where slot {at} is")
        at = last + 1
        share, shown = (last - first + 1) / every, piece["width"] / width
        if abs(share - shown) > 0.01:
            flaws.append(f"{piece['title']!r} has {shown:.0%} of the strip")
    return flaws


def colour_flaws(pool: dict[str, Any]) -> list[str]:
    """Sequences in two colours, their blocks included; colours of two sequences."""
    first, flaws = {}, []
    for shown in pool["colours"]:
        sequence, colour = shown["sequence"], shown["colour"]
        known = first.setdefault(sequence, colour)
        if colour != known:
            flaws.append(f"{shown['what']}: {sequence} is {known} elsewhere")
    named = set(first) & set("ABCDEFGH")  # after eight the colours begin anew
    if len({first[name] for name in named}) < len(named):
        flaws.append(f"two sequences have one colour: {first}")
    return flaws


def _numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", text)]
