"""Lab: the widgets' words: what happens, what was asked, what happened, and counts."""

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape

from minipaged.draw.letters import counted, from_to
from minipaged.lab.pool.guide import Frame, Verdict
from minipaged.lab.pool.html.parts import chip, colour, with_chips
from minipaged.lab.pool.lane_words import VERBS
from minipaged.lab.pool.snapshot import Snapshot

# As large as the field and the button for a guess, which ipywidgets makes.
FIELDS = (
    '<div class="widget-text mp-number"><label>Your guess:</label>'
    '<input type="text" disabled></div>'
    '<button class="jupyter-button mp-go" disabled>Guess</button>'
)
MOST_BOXES = 24  # in a sequence's row
MOST_TURNS = 30  # that are told below a pool


def steps(num_done: int, num_steps: int) -> str:
    """A dot for each step of a scene."""
    kinds = ["mp-done"] * (num_done - 1) + ["mp-now"]
    kinds += [""] * (num_steps - num_done)
    dots = "".join(f'<i class="{kind}"></i>' for kind in kinds)
    words = f"step {num_done} of {num_steps}"
    return f'<span class="mp-dots" role="img" aria-label="{words}">{dots}</span>'


def say(frame: Frame, others: Iterable[Frame] = ()) -> str:
    """What is seen now, in large letters; as high as the highest of the `others`."""
    made = _say(frame)
    hidden = (_say(other) for other in others if other != frame)
    return _stack(made, hidden, "mp-say")


def _say(frame: Frame) -> str:
    big = f'<p class="mp-big">{with_chips(frame.big)}</p>'
    return f'{big}<p class="mp-sub">{with_chips(frame.sub)}</p>'


def band(text: str, others: Iterable[str], questions: Iterable[tuple[str, str]]) -> str:
    """A verdict or what comes next; as high as the highest of all, and of questions.

    Each question with what is said to a guess that cannot be read.
    """
    fields = f'<div class="mp-line-of mp-field">{FIELDS}</div>'
    asked = (
        f'<div class="mp-line-of mp-asking">{question(*one)}{fields}</div>'
        for one in questions
    )
    hidden = [*(other for other in others if other != text), *asked]
    return _stack(text, hidden, "mp-band")


def question(text: str, wrong: str = "") -> str:
    """What the reader is asked; `wrong`: what the last guess should have been."""
    said = f' <span class="mp-wanted" role="status">{escape(wrong)}</span>' * bool(
        wrong
    )
    return f'<div class="mp-question">{with_chips(text)}{said}</div>'


def coming(text: str) -> str:
    """What the next step does."""
    return f'<span class="mp-quiet">Next: {with_chips(text)}</span>'


def quiet(text: str) -> str:
    """A remark."""
    return f'<span class="mp-quiet">{escape(text)}</span>'


def verdict(made: Verdict) -> str:
    """What became of a guess."""
    right = " mp-right" * made.is_right
    head = f'<b class="mp-verdict{right}">{escape(made.head)}</b>'
    return f'<span role="status">{head} {escape(made.why)}</span>'


def log(turns: Sequence[Sequence[str]], what: str = "step", first: int = 1) -> str:
    """What happened, the last of these turns first; the first is called `first`."""
    items, last = [], len(turns)
    for number in range(last, max(0, last - MOST_TURNS), -1):
        for index, line in enumerate(turns[number - 1]):
            kinds = ["mp-now"] * (number == last)
            kinds += ["mp-wrong"] * line.startswith("refused")
            time = "now" if number == last else f"{what} {number - 1 + first}"
            time *= not index
            items.append(
                f'<li class="{" ".join(kinds)}">{_with_letter(line)} '
                f"<time>{time}</time></li>"
            )
    return (
        '<h4>What happened</h4><ol class="mp-log" role="log" aria-live="polite" '
        'tabindex="0" aria-label="what happened, newest first">'
        f"{''.join(items)}</ol>"
    )


def _with_letter(line: str) -> str:
    """A sentence that begins with a sequence's name shows the name as a letter.

    And before one of a copy stands the letter of who writes.
    """
    found = re.match(rf"([A-Z]\d*) (?={VERBS})", line)
    if found:
        return f"{chip(found[1])} <span>{escape(line[found.end() :])}</span>"
    if found := re.search(r": copied to \d+ before ([A-Z]\d*) writes", line):
        return f"{chip(found[1])} <span>{escape(line)}</span>"
    return f'<i class="mp-dot"></i> <span>{escape(line)}</span>'


def sequence(snapshot: Snapshot, name: str) -> str:
    """A sequence's letter, how long it is, and its blocks as small boxes."""
    table, size = snapshot.tables[name], snapshot.block_size
    words = f"{counted(table.num_tokens, 'token')}, "
    words += counted(len(table.block_ids), "block")
    boxes = ""
    for entry, block_id in enumerate(table.block_ids[:MOST_BOXES]):
        share = 100 * min(1, (table.num_tokens - entry * size) / size)
        shared = " mp-shared" * (snapshot.refcounts[block_id] > 1)
        boxes += (
            f'<i class="mp-mini{shared}" '
            f'title="block {block_id}" style="--f:{share:.4g}%"></i>'
        )
    more = len(table.block_ids) - MOST_BOXES
    boxes += f"<small>+{more}</small>" * (more > 0)
    return (
        f'<div class="mp-length {colour(name)}"><span>{chip(name)} {words}</span>'
        f'<span class="mp-minis" aria-hidden="true">{boxes}</span></div>'
    )


def actions(names: Iterable[str]) -> str:
    """What the columns of buttons do, for the eye: each button has a title as well."""
    words = (f'<span class="mp-cut" title="{name}">{name}</span>' for name in names)
    return f'<div class="mp-acts-head" aria-hidden="true">{"".join(words)}</div>'


def side_by_side(left: str, right: str) -> str:
    """What happened, and counts: one part of the page, so one message to it."""
    return f'<div class="mp-bottom"><div>{left}</div><div>{right}</div></div>'


def figures(snapshot: Snapshot, has_shared: bool = True) -> str:
    """Blocks held, and without sharing, and how many of their slots are empty."""
    held, size = snapshot.num_held, snapshot.block_size
    empty = snapshot.num_empty
    share = f" <small>{100 * empty / (held * size):.0f} %</small>" if empty else ""
    rows = [(f"{held} <small>of {snapshot.num_blocks}</small>", "blocks held")]
    if has_shared:
        rows.append((f"{snapshot.num_unshared}", "if nothing were shared"))
    rows.append((f"{empty}{share}", "slots held but empty"))
    cells = (f"<p><b>{number}</b> <span>{what}</span></p>" for number, what in rows)
    return f'<div class="mp-figures">{"".join(cells)}</div>'


def key(
    snapshot: Snapshot,
    has_shared: bool,
    has_cached: bool,
    is_compact: bool = False,
    has_here: bool = False,
) -> str:
    """What the signs mean; those alone that a stage, large or compact, may show.

    has_here: whether it points at a position.
    """
    letters = "" if is_compact else ", with its holders' letters"
    lanes, twin = snapshot.lanes, snapshot.twin
    has_lost = lanes is not None and (
        lanes.num_places is None or any(card.num_lost for card in lanes.waiting)
    )
    signs = [
        (True, "mp-key-held mp-c0", "holds a token"),
        (has_shared, "mp-key-shared mp-c0", f"shared{letters}"),
        (True, "mp-key-part mp-c0", "held, still empty"),
        (True, "", "free"),
        (has_cached, "mp-key-cached", "free, can still be found"),
        (is_compact, "mp-key-ring", "changed in this step"),
        (not is_compact, "mp-key-changed", "changed in this step"),
        (not is_compact, "mp-key-freed", "freed in this step"),
        (lanes, "mp-key-load mp-c0", "computed before, and in this step"),
        (has_lost, "mp-key-lost mp-c0", "computed before, and lost"),
        (has_here, "mp-key-here", "the position that is looked up"),
        (twin and twin.waiting, "mp-key-hit", "too long by so many slots"),
    ]
    items = "".join(
        f'<li><i class="{kind}"></i> {what}</li>'
        for is_on, kind, what in signs
        if is_on
    )
    size = snapshot.block_size
    if size > 1 and not is_compact:
        foot = f"<span><b>1</b> {from_to(size, 2 * size - 1)}</span>"
        items += f"<li>{foot} block 1, and its slots</li>"
    return f'<ul class="mp-key">{items}</ul>'


def refusal(wrong: str) -> str:
    """Why a click changed nothing."""
    return f'<p class="mp-bad" role="alert"><b>✕</b> {escape(wrong)}</p>'


def written(texts: Mapping[str, str], snapshot: Snapshot) -> str:
    """What each sequence has written so far; those in the snapshot in their colour."""
    rows = []
    there = {*snapshot.tables, *(snapshot.lanes.names if snapshot.lanes else ())}
    for name, text in sorted(texts.items()):
        letter = chip(name) if name in there else f"<b>{escape(name)}</b>"
        rows.append(f"<p>{letter} {escape(text)}</p>")
    return f'<div class="mp-answers">{"".join(rows)}</div>'


def _stack(shown: str, hidden: Iterable[str], kind: str) -> str:
    """One text, and unseen ones below it: so nothing moves when another is shown."""
    others = "".join(f'<div class="mp-unseen">{other}</div>' for other in hidden)
    return f'<div class="mp-stack {kind}"><div>{shown}</div>{others}</div>'
