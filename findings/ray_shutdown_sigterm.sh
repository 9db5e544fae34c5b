#!/usr/bin/env bash
# ray 2.60.0: after ray.shutdown(), the program's handler of SIGTERM never runs.
# Behaviour: ray.shutdown() sets SIGTERM to the system's default, below Python. The next
#   SIGTERM ends the process at once: no handler, no finally, no atexit. Python does not
#   notice: signal.getsignal still names the handler.
# One would guess: a handler that was set after ray.init() (which overwrites an earlier
#   one, as it says) stays. If ray.shutdown() took it away, signal.getsignal would tell.
# For users: a program that goes on after ray.shutdown() calls signal.signal again for
#   SIGTERM, even with the same handler.
# Seen on 2026-11-29:
#   ray 2.60.0
#   before ray.shutdown(): handler ran, atexit ran, status 0
#   after it: status -15
#   after it, the handler set again: handler ran, atexit ran, status 0
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet ray==2.60.0
export HOME="$folder" RAY_TMPDIR="$folder" RAY_USAGE_STATS_ENABLED=0
"$folder/venv/bin/python" -I - <<'END'
import signal
import subprocess
import sys

import ray

PROGRAM = """
import atexit, os, signal, sys
import ray

def handler(number, frame):
    print("handler ran,", end=" ", flush=True)
    sys.exit(0)

atexit.register(print, "atexit ran,", end=" ", flush=True)
ray.init(num_cpus=1, object_store_memory=100_000_000, include_dashboard=False,
         log_to_driver=False)
signal.signal(signal.SIGTERM, handler)
if sys.argv[1] != "before":
    ray.shutdown()
assert signal.getsignal(signal.SIGTERM) is handler
if sys.argv[1] == "set again":
    signal.signal(signal.SIGTERM, handler)
os.kill(os.getpid(), signal.SIGTERM)
"""


def ends(when):
    """What the program prints, and its status, if SIGTERM is sent to it."""
    command = [sys.executable, "-I", "-c", PROGRAM, when]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    return f"{done.stdout}status {done.returncode}"


print("ray", ray.__version__)
print("before ray.shutdown():", before := ends("before"))
assert before == "handler ran, atexit ran, status 0"
print("after it:", after := ends("after"))
assert after == f"status {-signal.SIGTERM}"
print("after it, the handler set again:", again := ends("set again"))
assert again == before
END
