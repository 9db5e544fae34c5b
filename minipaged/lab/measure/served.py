"""Lab: loads that an engine served on a GPU, and the costs of its steps."""

from itertools import pairwise

from minipaged.lab.measure.measured import DATA
from minipaged.simulate.fit import FittedServer, fitted_server
from minipaged.simulate.validation import Validation, read_validations


def served_loads(device: str = "nvidia-h200") -> list[Validation]:
    """What benchmarks/gpu/simulated.py stored: three loads, as it names them.

    Chats, chats near saturation, and translations with a shared prefix. Of each
    timeline, only some steps are stored; here, each lasts from the one before it.
    """
    found = read_validations(DATA / f"served-{device}.json")
    for one in found:
        steps = pairwise(one.report.timeline)
        one.report.timeline[:] = [
            late._replace(seconds=late.end - early.end) for early, late in steps
        ]
    return found


def measured_costs(device: str = "nvidia-h200") -> FittedServer:
    """A server whose steps cost what benchmarks/gpu/step_costs.py measured."""
    return fitted_server(DATA / f"step-costs-{device}.json")
