"""Kill ranks at random moments: do the others end soon, and say why?

PYTHONPATH=.:tests python tests/helpers/killing_ranks.py 20
"""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import NamedTuple

from tqdm import tqdm

import minipaged as mp
from helpers import on_ranks
from helpers.rank_processes import SECONDS
from helpers.tiny_models import tiny_model

ENOUGH = 10.0  # seconds in which the others must have ended
SCRIPT = Path(__file__).with_name("script_that_goes_on.py")
# While they start, only who has started them can know that one of them is dead. From
# then on, the ranks know it by themselves.
PHASES = ("starts", "loads", "generates")


class Killing(NamedTuple):
    """One of `count` ranks is killed so many seconds after the phase has begun."""

    count: int
    rank: int
    phase: str
    seconds: float

    def fault(self, folder: str, place: Path) -> tuple[float, str]:
        """Seconds until all others had ended, and what was wrong with that."""
        kill = self._under_torchrun if self.phase == "starts" else self._alone
        seconds, wrong = kill(folder, place)
        if not wrong and seconds > ENOUGH:
            wrong = f"{seconds:.1f} s are too late"
        return seconds, f"{self}: {wrong}" if wrong else ""

    def _alone(self, folder: str, place: Path) -> tuple[float, str]:
        """Nobody watches over them; each must say why it ends."""
        port, ranks, logs = _free_port(), [], []
        try:
            for rank in range(self.count):
                logs.append(place / f"{port}-{rank}.log")
                ranks.append(self._start(rank, port, folder, logs[-1]))
            while any(on_ranks.BEGUN not in log.read_text() for log in logs):
                time.sleep(0.02)
            time.sleep(self.seconds)
            ranks[self.rank].kill()
            killed = time.monotonic()
            wrong = ""
            for rank in range(self.count):
                if rank != self.rank:
                    try:
                        ranks[rank].wait(SECONDS)
                    except subprocess.TimeoutExpired:
                        wrong += f"rank {rank} has not ended\n"
                    text = logs[rank].read_text()
                    if f"rank {self.rank} has ended" not in text:
                        code = ranks[rank].returncode
                        wrong += f"rank {rank} ended with {code}: {text}\n"
            return time.monotonic() - killed, wrong
        finally:
            for rank in ranks:
                rank.kill()
                rank.wait()

    def _start(
        self, rank: int, port: int, folder: str, log: Path
    ) -> subprocess.Popen[bytes]:
        own = {"RANK": str(rank), "LOCAL_RANK": str(rank)}
        own |= {"WORLD_SIZE": str(self.count), "PYTHONUNBUFFERED": "yes"}
        own |= {"MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}
        with log.open("wb") as printed:
            return subprocess.Popen(
                [sys.executable, str(SCRIPT), folder, self.phase],
                env=_environment() | own,
                stdout=printed,
                stderr=printed,
            )

    def _under_torchrun(self, folder: str, place: Path) -> tuple[float, str]:
        """It ends them all, and names the rank and the signal."""
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        command += [f"--nproc-per-node={self.count}", str(SCRIPT), folder, "generates"]
        with subprocess.Popen(
            command,
            stderr=subprocess.PIPE,
            text=True,
            env=_environment(),
        ) as started:
            try:
                while len(pids := _children(started.pid)) < self.count:
                    time.sleep(0.02)
                time.sleep(self.seconds)
                os.kill(pids[self.rank], signal.SIGKILL)
                killed = time.monotonic()
                _, said = started.communicate(timeout=SECONDS)
                seconds = time.monotonic() - killed
                is_said = f"local_rank: {self.rank} (pid: {pids[self.rank]})" in said
                alive = [pid for pid in pids if Path(f"/proc/{pid}").exists()]
                wrong = "" if is_said else f"torchrun says: {said}"
                return seconds, wrong + f"still there: {alive}" * bool(alive)
            finally:
                started.kill()


def _free_port() -> int:
    with socket.create_server(("localhost", 0)) as free:
        return free.getsockname()[1]


def _environment() -> dict[str, str]:
    """In which a script finds what this process has found."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}


def _children(pid: int) -> list[int]:
    """Its processes, in the order in which it has started them."""
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return sorted(map(int, found))


def killings(number: int, seed: int) -> list[Killing]:
    """So many, of two and of four ranks, in all phases."""
    draw = Random(seed)
    found = []
    for at in range(number):
        count = draw.choice((2, 4))
        phase = PHASES[at % len(PHASES)]
        seconds = draw.uniform(0, 6.0 if phase == "starts" else 1.5)
        found.append(Killing(count, draw.randrange(count), phase, seconds))
    return found


def model_folder(place: Path) -> str:
    """A tiny model that two and four ranks can share out."""
    folder = place / "llama"
    tiny_model("llama").save_pretrained(folder)
    mp.load("pocket")[1].save_pretrained(folder)
    return str(folder)


def main() -> None:
    number, seed = (*map(int, sys.argv[1:]), 0)[:2]
    clean, slowest = 0, 0.0
    with tempfile.TemporaryDirectory() as place:
        folder = model_folder(Path(place))
        for killing in tqdm(killings(number, seed), unit="kill"):
            seconds, fault = killing.fault(folder, Path(place))
            tqdm.write(fault or f"{seconds:4.1f} s: {killing}")
            clean += not fault
            slowest = max(slowest, seconds)
    print(f"{clean} of {number} ended with the cause; the last after {slowest:.1f} s")


if __name__ == "__main__":
    main()
