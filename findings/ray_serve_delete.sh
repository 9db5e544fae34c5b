#!/usr/bin/env bash
# ray 2.60.0: serve.delete() raises after 60 s, whatever graceful_shutdown_timeout_s is.
# Behaviour: with graceful_shutdown_timeout_s=300 and an answer that takes longer than a
#   minute, serve.delete(name) raises TimeoutError after 60 s. The application is still
#   being deleted, and its answer is completed if nobody ends Serve before.
# One would guess: the call waits as long as the deployment may take, because it blocks,
#   it takes no timeout, and its documentation names none.
# For users: catch the TimeoutError, and wait until serve.status().applications lacks
#   the name. A serve.shutdown() in a finally would cut the answers over HTTP, as
#   ray_serve_shutdown.sh shows.
# Seen on 2026-11-29:
#   ray 2.60.0
#   after 60 s: Some of these applications weren't deleted after 60s: ['slow']
#   status: DELETING
#   the answer: complete
#   then the application is gone
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet "ray[serve]==2.60.0"
export HOME="$folder" RAY_TMPDIR="$folder" RAY_USAGE_STATS_ENABLED=0
"$folder/venv/bin/python" -I - <<'END'
import asyncio
import time

import ray
from ray import serve

SECONDS = 75  # that an answer takes


@serve.deployment(
    graceful_shutdown_wait_loop_s=0.1,
    graceful_shutdown_timeout_s=300,
    ray_actor_options={"num_cpus": 0},
)
class Slow:
    async def __call__(self):
        await asyncio.sleep(SECONDS)
        return "complete"


ray.init(
    num_cpus=2,
    object_store_memory=100_000_000,
    include_dashboard=False,
    log_to_driver=False,
)
print("ray", ray.__version__)
answer = serve.run(Slow.bind(), name="slow", route_prefix=None).remote()
time.sleep(2)  # it has reached the replica
start = time.monotonic()
try:
    serve.delete("slow")
except TimeoutError as error:
    waited = time.monotonic() - start
    print(f"after {waited:.0f} s: {error}")
    assert 55 < waited < SECONDS - 5
else:
    raise AssertionError("it has waited for the answer")
print("status:", status := serve.status().applications["slow"].status.value)
assert status == "DELETING"
print("the answer:", text := answer.result())
assert text == "complete"
while "slow" in serve.status().applications:
    time.sleep(0.5)
print("then the application is gone")
serve.shutdown()
END
