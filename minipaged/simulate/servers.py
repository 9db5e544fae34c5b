"""Appendix F: the paper's servers, by table 1 and the data sheet of the A100."""

from dataclasses import dataclass

from minipaged.scheduling.plan import Plan
from minipaged.simulate.costs import load_of

PEAK_FLOPS = 312e12  # a second, of one A100, in 16 bits, dense
LINK_BANDWIDTH = 32e9  # bytes a second of one A100 to its host, each way: PCIe 4 x16
BYTES = 2  # of a number, in 16 bits


@dataclass(frozen=True)
class Server:
    """A model on A100s: a step takes what reading and computing take at least.

    Linear layers read all weights once, and compute two operations a weight for each
    token: the step takes the longer of the two. Attention reads K and V; in parts of
    prompts it computes, too. Several GPUs share all work evenly, and exchange nothing.
    The host takes no time, and reading through block tables takes no longer, though the
    paper found 20 to 26 % for attention (section 7.1). So the figures are bounds: a
    real server is slower.

    Sources: table 1 of the PagedAttention paper; NVIDIA's data sheet of the A100.
    """

    name: str
    num_parameters: float
    num_layers: int
    hidden_size: int
    num_slots: int  # token positions whose K and V fit: "max. # KV cache slots"
    num_gpus: int
    bandwidth: float  # bytes a second of one GPU's memory
    max_length: int = 2048  # positions of the model
    block_size: int = 16

    @property
    def kv_bytes_per_token(self) -> int:
        """K and V of a position, over all layers; for OPT-13B 819,200."""
        return 2 * self.num_layers * self.hidden_size * BYTES

    def step_seconds(self, plan: Plan, moved_blocks: int = 0) -> float:
        """Of the longer of reading weights and computing; of attention; of blocks."""
        load = load_of(plan, moved_blocks)
        bandwidth = self.num_gpus * self.bandwidth
        flops = self.num_gpus * PEAK_FLOPS
        reading = self.num_parameters * BYTES / bandwidth
        computing = 2 * self.num_parameters * load.num_tokens / flops
        block_bytes = self.block_size * self.kv_bytes_per_token
        copied = 2 * load.copied_blocks * block_bytes  # read and written
        return (
            max(reading, computing)
            + (load.keys_read * self.kv_bytes_per_token + copied) / bandwidth
            + 4 * self.num_layers * self.hidden_size * load.pairs / flops
            + load.moved_blocks * block_bytes / (self.num_gpus * LINK_BANDWIDTH)
        )


OPT_13B = Server("OPT-13B", 13e9, 40, 5120, 15_728, 1, 1555e9)
OPT_66B = Server("OPT-66B", 66e9, 64, 9216, 9_700, 4, 1555e9)
OPT_175B = Server("OPT-175B", 173e9, 96, 12_288, 60_100, 8, 2039e9)
# Not in table 1. Its layers are those of OPT-13B, so a GPU has room for as much.
LLAMA_13B = Server("LLaMA-13B", 13e9, 40, 5120, 15_728, 1, 1555e9)
SERVERS = {each.name: each for each in (OPT_13B, OPT_66B, OPT_175B, LLAMA_13B)}
