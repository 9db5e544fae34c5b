"""Lab: a clock for engines that runs the same on every machine."""

from minipaged.scheduling.clock import Clock
from minipaged.scheduling.observer import Observer
from minipaged.scheduling.plan import Plan


class StepClock(Clock, Observer):
    """Time passes as steps are computed, not as this machine happens to be fast.

    A step takes `per_step` seconds (the weights are read once, for whoever is there),
    and `per_token` seconds more for each token that it computes. To be given to the
    engine twice: `Engine(paged, clock=clock, observers=[clock])`.
    """

    def __init__(self, per_step: float = 1.0, per_token: float = 0.0):
        """At 0; by default it counts steps."""
        self.per_step, self.per_token = per_step, per_token
        self.moment = 0.0

    def start(self) -> None:
        """Nothing passes by itself."""

    def now(self) -> float:
        """Seconds so far."""
        return self.moment

    def sleep_until(self, moment: float, wait: object = None) -> None:
        """It is that late at once."""
        self.moment = max(self.moment, moment)

    def step_seconds(self, plan: Plan, moved_blocks: int = 0) -> float:
        """What a step takes; so it serves as a cost model, too."""
        return self.per_step + self.per_token * plan.num_tokens

    def committed(self, plan: Plan) -> None:
        """A step is over."""
        self.moment += self.step_seconds(plan)
