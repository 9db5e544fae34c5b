"""The list of all that can be played with in the site, lesson by lesson."""

import json
import re
from itertools import groupby

TITLE = "# Play with a block pool\n"
INTRODUCTION = """
The pool, its tables and the scheduler of the package run in your browser, as they are.

- [Fork and write](playground.html#cow): two sequences share a block, until one writes.
- [Free play](playground.html#play): an empty pool, and all that a sequence can do.
- [Simulator](playground.html#simulator): what different ways to give memory waste, and
  how long users wait.

## Guided scenes

A scene leads you step by step, and asks you to guess. You can also go on by hand.
"""
ABSENT = """
The pool is not in this copy of the site: `make playground` before `make book` adds it.
"""
TITLES = re.compile(r"^const TITLES = (.+);$", re.MULTILINE)


def page(pool: str) -> str:
    """Markdown: each scene, below the notebook that it comes from.

    pool: the page in which the pool lives; "" if the site does not have it. The page
    says itself which scenes it has.
    """
    if not pool:
        return TITLE + ABSENT
    titles = json.loads(TITLES.search(pool)[1])
    scenes = [(place, *told) for place, told in titles.items()]
    scenes = [one for one in scenes if one[0] not in ("cow", "play", "simulator")]
    lines = [TITLE + INTRODUCTION]
    for (file, notebook), group in groupby(scenes, key=lambda one: one[2:]):
        lines.append(f"From [{notebook}](notebooks/{file}.ipynb):\n")
        lines += [f"- [{title}](playground.html#{place})" for place, title, *_ in group]
        lines.append("")
    return "\n".join(lines)
