"""Lab: a script on several ranks, as torchrun starts them on this machine's CPU."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory


def start_ranks(
    script: str, num_ranks: int, arguments: Sequence[str] = (), timeout: float = 120.0
) -> list[str]:
    """Run the text of a script on each rank; return what each of them has printed.

    They talk by gloo over 127.0.0.1, also if there is a GPU, and are gone afterwards.
    arguments: the script's `sys.argv[1:]`. timeout: in seconds.

    Raises RuntimeError if a rank ends by an error, with what it has said, and
    TimeoutError if they have not ended in time.
    """
    with TemporaryDirectory() as folder:
        file = Path(folder, "script.py")
        file.write_text(script, encoding="utf-8")
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        command += ["--local-addr", "127.0.0.1", "--nproc-per-node", str(num_ranks)]
        command += ["--log-dir", folder, "--redirects", "3", str(file), *arguments]
        with subprocess.Popen(
            command,
            env=os.environ | {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        ) as started:
            try:
                _, report = started.communicate(timeout=timeout)
            except subprocess.TimeoutExpired:
                said = "\n".join(_said(folder, "stderr"))
                raise TimeoutError(
                    f"{num_ranks} ranks have not ended within {timeout:g} seconds; "
                    f"they say: {said}"
                ) from None
            finally:
                started.terminate()  # it ends its ranks before it ends itself
        if started.returncode:
            said = "\n".join(filter(None, _said(folder, "stderr"))) or report
            raise RuntimeError(f"not all of {num_ranks} ranks have ended well:\n{said}")
        return [_without_gloo(text) for text in _said(folder, "stdout")]


def _without_gloo(text: str) -> str:
    """Without the lines in which torch 2.9's gloo tells how many it has connected."""
    lines = text.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("[Gloo] "))


def _said(folder: str, stream: str) -> list[str]:
    """What the ranks have written to it, in order."""
    files = Path(folder).glob(f"*/attempt_0/*/{stream}.log")
    in_order = sorted(files, key=lambda file: int(file.parent.name))
    return [file.read_text("utf-8") for file in in_order]
