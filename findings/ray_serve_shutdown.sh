#!/usr/bin/env bash
# ray 2.60.0: serve.shutdown() cuts answers over HTTP that serve.delete() completes.
# Behaviour: serve.shutdown() waits for the replicas' requests, but ends the HTTP
#   proxies at once. A client of HTTP loses its stream in the middle. A stream that was
#   asked for through a deployment handle is completed, and so is any stream under
#   serve.delete(name), because that leaves the proxies alone.
# One would guess: graceful_shutdown_wait_loop_s ("replicas wait until there is no more
#   work to be done") and graceful_shutdown_timeout_s hold for both, and for every
#   client, because shutdown() "deletes all applications".
# For users: call serve.delete(name) for each application, then serve.shutdown().
# Seen on 2026-11-29:
#   ray 2.60.0
#   over_http, serve.delete: 12 of 12 pieces
#   over_http, serve.shutdown: 2 of 12 pieces
#   by_handle, serve.delete: 12 of 12 pieces
#   by_handle, serve.shutdown: 12 of 12 pieces
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet "ray[serve]==2.60.0" starlette==1.10.0
export HOME="$folder" RAY_TMPDIR="$folder" RAY_USAGE_STATS_ENABLED=0
"$folder/venv/bin/python" -I - <<'END'
import asyncio
import http.client
import socket
import threading
import time

import ray
from ray import serve
from starlette.responses import StreamingResponse

PIECES = 12
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]


@serve.deployment(
    graceful_shutdown_wait_loop_s=0.1,
    graceful_shutdown_timeout_s=60,
    ray_actor_options={"num_cpus": 0},
)
class Count:
    async def pieces(self):
        for number in range(PIECES):
            yield f"{number} "
            await asyncio.sleep(0.5)

    async def __call__(self, request):
        return StreamingResponse(self.pieces())


def over_http(handle, got):
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", "/")
    response = connection.getresponse()
    try:
        while piece := response.read1():
            got += piece.decode().split()
    except http.client.IncompleteRead:
        pass


def by_handle(handle, got):
    for piece in handle.options(stream=True).pieces.remote():
        got += piece.split()


def pieces_read(client, end):
    """How many of the pieces the client gets if `end` is called after the second."""
    serve.start(http_options={"host": "127.0.0.1", "port": port})
    handle = serve.run(Count.bind(), name="count")
    got = []
    reader = threading.Thread(target=client, args=(handle, got))
    reader.start()
    while len(got) < 2:
        time.sleep(0.05)
    end()
    reader.join()
    serve.shutdown()
    return len(got)


ray.init(
    num_cpus=2,
    object_store_memory=100_000_000,
    include_dashboard=False,
    log_to_driver=False,
)
print("ray", ray.__version__)
for client in over_http, by_handle:
    for end in lambda: serve.delete("count"), serve.shutdown:
        name = "serve.shutdown" if end is serve.shutdown else "serve.delete"
        num = pieces_read(client, end)
        print(f"{client.__name__}, {name}: {num} of {PIECES} pieces")
        cut = client is over_http and end is serve.shutdown
        assert num < PIECES if cut else num == PIECES
END
