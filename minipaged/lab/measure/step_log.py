"""Lab: who was served in which step, and held how many blocks."""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from minipaged.scheduling.observer import Observer
from minipaged.scheduling.plan import Plan
from minipaged.scheduling.request import Request


class Share(NamedTuple):
    """What somebody has of a step; a plain pair of numbers will do as well."""

    num_tokens: int  # computed for each of its sequences, at most
    num_blocks: int  # held meanwhile, by all its sequences together


Steps = Sequence[Mapping[str, tuple[int, int]]]  # a Share for each name, in each step


class StepLog(Observer):
    """Notes for every step each request's Share, by its name in `names`.

    To be given to an engine: `Engine(paged, observers=[log])`. Requests that have no
    name when they are planned are not noted.
    """

    def __init__(self) -> None:
        """Nobody has a name, and no step was made."""
        self.names: dict[Request, str] = {}
        self.steps: list[dict[str, Share]] = []

    def planned(self, plan: Plan) -> None:
        """Note it now: the tables will grow, and be given back."""
        self.steps.append({})
        for request, name in self.names.items():
            own = [work.num_tokens for work in plan.works if work.request is request]
            tables = [one.table for one in request.sequences if one.table is not None]
            held = set(chain.from_iterable(table.block_ids for table in tables))
            if own:
                self.steps[-1][name] = Share(max(own), len(held))
