"""Clients that want other packages than ours: `make test-clients` installs them."""

import json
import os
import subprocess
from pathlib import Path

import pytest

import minipaged
from helpers.http_serving import FRANCE, chat_tokens, huggingface_texts

CLIENTS = os.environ.get("MINIPAGED_CLIENTS", "")  # where their programs lie
POCKET = Path(minipaged.__file__).parent / "model" / "pocket"

pytestmark = pytest.mark.skipif(not CLIENTS, reason="is for make test-clients")


def run(program, *arguments):
    """What it prints; AssertionError with all that it said if it fails."""
    done = subprocess.run(
        [Path(CLIENTS, program), *arguments],
        env=os.environ | {"HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_guidellm(server, tmp_path):
    report = tmp_path / "report.json"
    run(
        "guidellm", "run", "--disable-console",
        "--backend", f"kind=openai_http,target={server.url},model=pocket",
        "--tokenizer", f"kind=hf_auto,model={POCKET}",
        "--data", "kind=synthetic_text,prompt_tokens=64,output_tokens=16",
        "--profile", "kind=concurrent,streams=4",
        "--constraint", "kind=max_requests,count=20",
        "--output", f"kind=json,path={report}",
    )  # fmt: skip
    (found,) = json.loads(report.read_text())["benchmarks"]
    totals = {"successful": 20, "errored": 0, "incomplete": 0, "total": 20}
    assert found["metrics"]["request_totals"] == totals
    for request in found["requests"]["successful"]:
        assert request["output_tokens"] == 16 and request["time_to_first_token_ms"] > 0


ASK = """
import sys, openai
fields = {"model": "pocket", "temperature": 0, "max_completion_tokens": 20,
          "messages": [{"role": "user", "content": sys.argv[2]}]}
with openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key="none") as client:
    whole = client.chat.completions.create(**fields).choices[0].message.content
    with client.chat.completions.create(**fields, stream=True) as stream:
        parts = [part.choices[0].delta.content for part in stream]
assert "".join(parts) == whole, (parts, whole)
print(whole, end="")
"""


def test_openai_s_newest(server):
    right = huggingface_texts(chat_tokens(FRANCE), max_new_tokens=20)[0]
    assert run("python", "-c", ASK, server.url, FRANCE) == right
