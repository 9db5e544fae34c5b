"""Lab: how evenly routers load a simulated cluster, and what its users see (H)."""

from collections.abc import Mapping
from statistics import fmean

from minipaged.draw.palette import theme
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.tones import strong
from minipaged.lab.plots.render import Figure, render
from minipaged.simulate.cluster_report import ClusterReport

HIGH = 44.0  # pixels of the most loaded replica


def plot_cluster(reports: Mapping[str, ClusterReport], title: str) -> Figure:
    """A bar for each replica's mean load, the most loaded first; a line at the mean.

    At the right: which share of the prompts was found, and when first tokens came.
    reports: by router; all of as many replicas.
    """
    picture = Picture(title)
    most = max(max(report.loads.values()) for report in reports.values())
    picture.heads("found", "first token", "P99")
    for name, report in reports.items():
        loads = sorted(report.loads.values(), reverse=True)
        wait = report.wait("time_to_first_token")
        lane = picture.lane(
            name,
            f"balance {report.balance:.2f}",
            [Cell("", strong("A"), high=load / most) for load in loads],
            height=HIGH,
            apart=12.0,
            values=(
                f"{report.hit_rate:.0%}",
                f"{1000 * wait.mean:.0f} ms",
                f"{1000 * wait.p99:.0f} ms",
            ),
        )
        mean = fmean(loads)
        lane.level(mean / most, f"{mean:.1f}", color=theme().ink)
    picture.axis("replicas, the most loaded first", is_bare=True)
    picture.text(f"height: requests at a time; highest bar: {most:.1f}; line: the mean")
    picture.text("balance: the highest bar of a router over its mean")
    picture.legend((strong("A"), "requests of a replica"))
    return render(picture.scene())
