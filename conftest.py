"""Settings that hold for tests and notebooks alike."""

import os

# Progress bars would make captured output depend on how fast the machine is.
os.environ.setdefault("TQDM_DISABLE", "1")
# The models are tiny: handing their work to a second thread costs more than it saves,
# and most of all if that thread's core is busy with other tests. Read by torch when it
# is imported, here and in the notebooks' kernels.
os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_xdist_auto_num_workers() -> int:
    """A process more than cores: whoever drives a browser mostly waits."""
    return min((os.cpu_count() or 1) + 1, 5)
