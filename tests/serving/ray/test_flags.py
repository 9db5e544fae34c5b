"""What the command understands, without Ray."""

from types import SimpleNamespace

import pytest

from minipaged.scheduling.routing import FACTOR, POLICIES, SPARE
from minipaged.serving.ray.command import NAME, delete, parser


def test_a_model_is_enough():
    given = parser().parse_args(["pocket"])
    assert (given.replicas, given.router) == (2, "prefix")
    assert (given.factor, given.spare) == (FACTOR, SPARE)
    assert given.router in POLICIES and given.max_num_seqs == 256


def test_flags_of_the_server_hold_for_each_replica():
    flags = ["pocket", "--num-blocks", "64", "--tensor-parallel-size", "2"]
    given = parser().parse_args(flags)
    assert (given.num_blocks, given.tensor_parallel_size) == (64, 2)


@pytest.mark.parametrize(
    "flags",
    [
        ["--factor", "0.5"],
        ["--factor", "nan"],
        ["--router", "the best"],
        ["--replicas", "0"],
        ["--max-replicas", "-1"],
    ],
)
def test_what_makes_no_sense_is_refused(flags, capsys):
    with pytest.raises(SystemExit):
        parser().parse_args(["pocket", *flags])
    assert flags[0] in capsys.readouterr().err


def test_help_begins_with_the_command():
    said = parser().format_help()
    assert "\n`python -m minipaged.serving.ray MODEL`: replicas" in said
    assert "Lab:" not in said


class Serve:
    """What `ray.serve` does if an answer runs on: it raises, and deletes later."""

    def __init__(self, looks):
        """The application is there for so many looks."""
        self.looks = looks

    def delete(self, name):
        assert name == NAME
        raise TimeoutError("after a minute")

    def status(self):
        self.looks -= 1
        return SimpleNamespace(applications={NAME: 1} if self.looks > 0 else {})


def test_long_answers_are_waited_for():
    serve = Serve(looks=3)
    delete(serve, seconds=60)
    assert serve.looks == 0


def test_they_are_waited_for_only_so_long():
    serve = Serve(looks=1000)
    delete(serve, seconds=0.5)
    assert 0 < serve.looks < 1000
