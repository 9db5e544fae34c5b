"""Compute the PagedAttention paper's figures 12 to 18b by simulation; no GPU.

    python tools/paper_figures.py                        all, about half an hour
    python tools/paper_figures.py --minutes 1            a short run
    python tools/paper_figures.py --only "figure 15"     parts whose names have this
    python tools/paper_figures.py --azure FILE --only    Azure's trace alone

Parts are stored as they come, in minipaged/lab/measure/data/paper-figures.json; a part
computed anew takes the old one's place. In the end it prints the paper's claims beside
ours. Azure's trace is not shipped: download AzureLLMInferenceTrace_conv.csv from
github.com/Azure/AzurePublicDataset (CC-BY 4.0); without it, what is stored stays.
"""

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from minipaged.lab.measure.measured import DATA
from minipaged.progress import progress_bar
from minipaged.simulate.claims import table
from minipaged.simulate.paper import LIMIT, PARTS, recorded

OUT = DATA / "paper-figures.json"


def main(arguments: Sequence[str] | None = None) -> None:
    """Compute, store, print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=5.0, help="of each trace")
    parser.add_argument("--only", nargs="*", default=[""], help="parts of parts' names")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--azure", metavar="FILE", help="Azure's trace, downloaded")
    given = parser.parse_args(arguments)
    stored = json.loads(given.out.read_text("utf-8")) if given.out.exists() else {}
    stored |= {"limit_s_per_token": LIMIT}
    parts = stored.setdefault("parts", {})
    wanted = {
        name: part
        for name, part in PARTS.items()
        if any(word in name for word in given.only)
    }
    if given.azure:
        wanted["Azure"] = (recorded, given.azure)
    for name in progress_bar(wanted, desc="figures", unit=" parts"):
        compute, argument = wanted[name]
        start = time.perf_counter()
        found = compute(given.minutes, argument)
        seconds = round(time.perf_counter() - start, 1)
        parts[name] = {
            "minutes": given.minutes,
            "seconds": seconds,
            "found": rounded(found),
        }
        given.out.write_text(json.dumps(stored, indent=1) + "\n", "utf-8")
    results = {name: part["found"] for name, part in parts.items()}
    print(table(results))


def rounded(found: Any) -> Any:
    """The same with four digits that count: more would only differ."""
    if isinstance(found, dict):
        return {name: rounded(each) for name, each in found.items()}
    if isinstance(found, list):
        return [rounded(each) for each in found]
    return float(f"{found:.4g}") if isinstance(found, float) else found


if __name__ == "__main__":
    main()
