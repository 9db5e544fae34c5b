"""Settings that hold for tests and notebooks alike."""

import os

import torch

# Progress bars would make captured output depend on how fast the machine is.
os.environ.setdefault("TQDM_DISABLE", "1")
# The models are tiny: handing their work to a second thread costs more than it saves.
torch.set_num_threads(1)
