"""The ten-minute start: what it says of the other lessons is true."""

import re

from helpers import notebook_files as files
from tools.lesson_tables import ROUTES, lessons

START = files.load(files.NOTEBOOKS[0])
MAP = files.markdown(START).partition("## Where to go from here\n")[2]
ROUTE = re.compile(r"^\| \*\*(.+?)\*\* \| (.+?) \| ([\d½]+) h(?: more)? \|", re.M)


def test_its_three_routes_are_those_of_the_front_page():
    routes = {
        name: "".join(re.findall(r"\[(\w) · ", links))
        for name, links, _ in ROUTE.findall(MAP)
    }
    evening, server, kernel, _ = (row.replace(" ", "") for row in ROUTES.values())
    assert routes == {
        "an evening": evening,
        "the server's": server.removeprefix(evening),
        "the kernel's": kernel.removeprefix(evening),
    }


def test_the_hours_are_those_of_the_lessons():
    """To the half hour, as it is said."""
    minutes = {lesson.number: int(lesson.minutes) for lesson in lessons()}
    for name, links, hours in ROUTE.findall(MAP):
        total = sum(minutes[number] for number in re.findall(r"\[(\w) · ", links))
        said = int(hours.rstrip("½")) + hours.endswith("½") / 2
        assert abs(total / 60 - said) <= 0.25, (name, total)
