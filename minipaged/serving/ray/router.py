"""Lab: our routing policies as a request router of Ray Serve."""

from collections import Counter
from typing import Any

from ray.serve.request_router import (
    PendingRequest,
    ReplicaID,
    RequestRouter,
    RunningReplica,
)

from minipaged.scheduling.routing import POLICIES

_METHOD = "serve"  # of Replica; its first argument is the chain


class PolicyRouter(RequestRouter):
    """Asks a policy of `scheduling.routing`, with the loads that this router has made.

    Each front has a router, which knows only what it has sent itself. Yet if none of
    them gives a replica more than `factor` times the mean of its own requests, then no
    replica has more than that of all requests: the sum of the bounds is the bound of
    the sums.
    """

    # Which replica is asked does not depend on the answer, so a busy one has its time.
    queue_len_response_deadline_s = 1.0

    def initialize_state(self, policy: str = "prefix", **options: Any) -> None:
        """Called by Serve. policy: a name of POLICIES; options: of its constructor."""
        self._policy = POLICIES[policy](**options)
        self._loads: Counter[ReplicaID] = Counter()

    async def choose_replicas(
        self,
        candidate_replicas: list[RunningReplica],
        pending_request: PendingRequest | None = None,
    ) -> list[list[RunningReplica]]:
        """The policy's choice of those that are not full; if all are, try all."""
        open_ones = {
            replica.replica_id: replica
            for replica in self.select_available_replicas(candidate_replicas)
        }
        if not open_ones:
            return [candidate_replicas]
        loads = {name: self._loads[name] for name in open_ones}
        chosen = self._policy.choose(loads, _chain(pending_request))
        return [[open_ones[chosen]]]

    def on_send_request(self, replica_id: ReplicaID) -> None:
        """Called by Serve, also for calls that are no requests for text."""
        super().on_send_request(replica_id)
        self._loads[replica_id] += 1

    def on_request_completed(
        self, replica_id: ReplicaID, internal_request_id: str
    ) -> None:
        """Called by Serve, whatever became of the request."""
        super().on_request_completed(replica_id, internal_request_id)
        self._loads[replica_id] = max(0, self._loads[replica_id] - 1)

    def on_request_routed(
        self, pending_request: PendingRequest, replica_id: ReplicaID, result: Any
    ) -> None:
        """Called by Serve: the replica has accepted it."""
        super().on_request_routed(pending_request, replica_id, result)
        self._policy.sent(replica_id, _chain(pending_request))

    def on_replica_actor_died(self, replica_id: ReplicaID) -> None:
        """Called by Serve."""
        super().on_replica_actor_died(replica_id)
        self._forget(replica_id)

    def update_replicas(self, replicas: list[RunningReplica]) -> None:
        """Called by Serve: these are all that there are now."""
        gone = self.curr_replicas.keys() - {one.replica_id for one in replicas}
        super().update_replicas(replicas)
        for replica_id in gone:
            self._forget(replica_id)

    def _forget(self, replica_id: ReplicaID) -> None:
        self._policy.forget(replica_id)
        self._loads.pop(replica_id, None)


def _chain(request: PendingRequest | None) -> list[int]:
    """The request's chain of hashes; of other calls, none."""
    if request is None or request.metadata.call_method != _METHOD:
        return []
    return request.args[0]
