"""A script as torchrun runs it, which loads or generates until somebody ends it."""

import sys

from helpers import on_ranks

folder, phase = sys.argv[1:]
do = {"loads": on_ranks.load_and_load, "generates": on_ranks.go_on_and_on}
do[phase](folder)
