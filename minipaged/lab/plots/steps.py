"""Lab: the numbers of a run's steps, above or below its lanes."""

from minipaged.draw.picture import Cell, Picture

FEW = 24  # numbers in a row; of more steps, only those at round numbers are named


def add_steps(picture: Picture, count: int, most: int = 0) -> None:
    """A number for each step, from 1, a unit wide; named as those of `most` steps."""
    longest = max(count, most)
    every = next(n for n in (1, 5, 10, 20, 50, 100, 1000) if longest <= FEW * n)
    named = {1, *range(every, count + 1, every)}
    numbers = [Cell(below=str(at) * (at in named)) for at in range(1, count + 1)]
    picture.lane("step", "", numbers, height=0.0)
