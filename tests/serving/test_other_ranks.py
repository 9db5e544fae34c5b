"""`minipaged serve` on two ranks answers, and ends if one of them does."""

import os
import re
import signal
import subprocess
import sys

import httpx

from helpers.http_serving import FRANCE, huggingface_texts

COMMAND = [
    *(sys.executable, "-m", "minipaged.serving", "pocket", "--port", "0"),
    *("--num-blocks", "64", "--tensor-parallel-size", "2"),
]


def children_of(pid):
    """Its processes that compute: multiprocessing starts one more, to tidy up."""
    found = subprocess.check_output(["pgrep", "-P", str(pid), "-f", "spawn_main"])
    return [int(child) for child in found.split()]


def test_a_server_on_two_ranks(tmp_path):
    with subprocess.Popen(COMMAND, stderr=subprocess.PIPE, text=True) as server:
        try:
            for line in server.stderr:
                if found := re.search(r"http://127.0.0.1:\d+", line):
                    break
            body = {"model": "pocket", "prompt": FRANCE, "max_tokens": 8}
            for seed in (1, 2):
                answer = httpx.post(
                    f"{found[0]}/v1/completions", json=body | {"seed": seed}, timeout=60
                )
                (right,) = huggingface_texts(
                    FRANCE, seed, max_new_tokens=8, do_sample=True
                )
                assert answer.json()["choices"][0]["text"] == right
            (engine,) = children_of(server.pid)
            (other,) = children_of(engine)
            os.kill(other, signal.SIGKILL)
            _, printed = server.communicate(timeout=20)
            assert "rank 1 has ended (exit code -9)" in printed
            assert server.returncode == 1
        finally:
            server.kill()


def test_what_all_ranks_refuse_is_said_once():
    command = [*COMMAND[:-1], "4"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 2
    assert ran.stderr.count("4 ranks cannot share out heads") == 1
