"""Lab: a snapshot as a picture that can be saved from the page."""

from base64 import b64encode
from io import BytesIO

from minipaged.lab.pool.snapshot import Snapshot


def draw_png(snapshot: Snapshot) -> bytes:
    """The pool as a PNG file."""
    # Only when one is asked for: the widget itself needs no plots.
    from matplotlib import pyplot as plt

    from minipaged.lab.plots.pool import plot_pool

    title = f"{snapshot.num_held} of {snapshot.num_blocks} blocks are held"
    columns = 8 if snapshot.num_blocks <= 128 else 32
    cached = snapshot.contents.cached
    figure = plot_pool(snapshot, snapshot.tables, title, columns=columns, cached=cached)
    file = BytesIO()
    figure.savefig(file, format="png", dpi=150)
    plt.close(figure)
    return file.getvalue()


def link_to_picture(snapshot: Snapshot) -> str:
    """HTML that shows the picture, and saves it when it is clicked."""
    address = f"data:image/png;base64,{b64encode(draw_png(snapshot)).decode()}"
    return (
        f'<a download="block-pool.png" href="{address}">save block-pool.png<br>'
        f'<img alt="the pool as a picture" style="max-width:480px;width:100%" '
        f'src="{address}"></a>'
    )
