"""Lab: weights in a number format, up to the logit where one of them is infinite."""

import math
from collections.abc import Mapping

import torch
from matplotlib.figure import Figure

from minipaged.lab.plots.charts import canvas
from minipaged.lab.plots.palette import BAD, line_colour, theme

DASHES = ("-", "--", ":", "-.")
LOWEST, BELOW = -9.0, 1.8  # the least power of 10 that is drawn; room below the lines


def plot_overflow(
    x: torch.Tensor, weights: Mapping[str, torch.Tensor], largest: float, title: str
) -> Figure:
    """A line for each way to compute the weights; × where the next weight is ∞.

    x: the logits. weights: of each logit, over a logarithmic axis; 0 is not drawn.
    largest: the logit whose exponential is the format's largest number.
    """
    figure, axes = canvas(title, height=3.8)
    look, lowest = theme(), 0.0
    for index, (name, values) in enumerate(weights.items()):
        colour, power = line_colour(index), values.double().log10()
        drawn = power.isfinite()
        xs, ys = x[drawn].tolist(), power[drawn].tolist()
        lowest = max(LOWEST, min(lowest, min(ys) - BELOW))
        axes.plot(xs, ys, color=colour, linestyle=DASHES[index % len(DASHES)])
        place = {"ha": "right", "textcoords": "offset points", "fontsize": 10}
        is_lost = bool(values.isinf().any())
        end, offset = (xs[-1], ys[-1]), (-10 if is_lost else 0, 4)
        axes.annotate(name, end, offset, va="bottom", color=look.ink, **place)
        if is_lost:
            cross = {"marker": "x", "markersize": 10, "markeredgewidth": 2.4}
            axes.plot(xs[-1], ys[-1], color=BAD, **cross)
        if not drawn[0] and ys[0] > LOWEST:
            words, style = f"0 below {xs[0]:.1f}", {"color": look.quiet, "fontsize": 9}
            axes.text(xs[0], ys[0] - 0.42, words, va="top", **style)
    top = torch.finfo(x.dtype).max
    power = math.log10(top)
    axes.axhline(power, color=look.rim, linewidth=0.8)
    words = f"{top:,.0f}, the largest number"
    least, most, room = float(x.min()), float(x.max()), 0.1 * (power - lowest)
    # On the side where there is more room
    side = "left" if 2 * largest > least + most else "right"
    style = {"color": look.quiet, "fontsize": 9, "va": "bottom", "ha": side}
    axes.text(least if side == "left" else most, power + 0.18, words, **style)
    ends = power - room, power + room  # not as far as the lines of other weights
    axes.plot([largest] * 2, ends, color=BAD, linestyle=":", linewidth=1.4)
    style = {"color": BAD, "fontsize": 10, "va": "bottom"}
    axes.text(1.015 * largest, power + 0.18, "∞ from here", **style)
    axes.set(xlabel="logit x", ylabel="weight (logarithmic)")
    axes.set_xticks([tick for tick in axes.get_xticks() if least <= tick <= most])
    step = 2 if power - lowest < 16 else 10
    powers = [k for k in range(-40, 41, step) if lowest < k < power - 0.5]
    axes.set_yticks(powers, [_number(k) for k in powers])
    margin = 0.02 * (most - least)
    axes.set(xlim=(least - margin, most + margin), ylim=(lowest, power + room))
    axes.grid(axis="y", color=look.rim, alpha=0.35)
    return figure


def _number(power: int) -> str:
    """10^power, written out if it is not too long."""
    if abs(power) > 6:
        return f"10^{power}"
    return f"{10**power:,}" if power >= 0 else f"{10**power:.{-power}f}"
