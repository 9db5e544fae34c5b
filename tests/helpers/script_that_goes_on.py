"""A script as torchrun runs it, which generates until somebody ends it."""

import sys

from helpers import on_ranks

on_ranks.go_on_and_on(sys.argv[1])
