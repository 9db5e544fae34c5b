"""The notebooks that test_alone.py leaves to another process."""

from helpers import notebook_files as files
from helpers.alone import each_runs_alone

test_a_notebook_runs_alone = each_runs_alone(files.NOTEBOOKS[1::2])
