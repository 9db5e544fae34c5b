"""Lab: made-up request-length traces (paper, section 6.1).

Known from the paper: the four means (figure 11), and that ShareGPT varies more than
Alpaca. The rest is assumed: log-normal lengths, prompt and output independent, and the
spreads, `sigma` being the standard deviation of a length's logarithm. Only ShareGPT's
output spread has a source. In figures 2 and 13, Orca (Max) runs 7 requests and reserves
13.3% of 15.7K slots for later tokens: 299 slots each, half of E[output^2] / E[output].
A log-normal of mean 338, clipped at 2048, has that ratio at a sigma of 0.8. So the bar
of Orca (Max) is no evidence for our model; those of Pow2 and Oracle are.
"""

import numpy as np

from minipaged.memory.contiguous import RequestLengths
from minipaged.simulate.lengths import LogNormal
from minipaged.simulate.traces import ALPACA, MAX_LENGTH, SHAREGPT


def sharegpt_like(n: int, seed: int = 0) -> list[RequestLengths]:
    """`n` made-up chats: long prompts and answers, mean 161.31 and 337.99 tokens."""
    return _log_normal_trace(n, seed, *SHAREGPT)


def alpaca_like(n: int, seed: int = 0) -> list[RequestLengths]:
    """`n` made-up instructions, mean 19.31 tokens, and answers, mean 58.45 tokens."""
    return _log_normal_trace(n, seed, *ALPACA)


def _log_normal_trace(
    n: int, seed: int, prompt: tuple[float, float], output: tuple[float, float]
) -> list[RequestLengths]:
    """Draw `n` independent prompts and outputs, each given by its mean and sigma.

    A prompt takes at most half of MAX_LENGTH, an output at most what is left.
    """
    rng = np.random.default_rng(seed)
    prompts = _in_bands(LogNormal(*prompt, limit=MAX_LENGTH // 2), n, rng)
    outputs = _in_bands(LogNormal(*output, limit=MAX_LENGTH), n, rng)
    outputs = np.minimum(outputs, MAX_LENGTH - prompts)  # costs 0.4% of the mean
    pairs = zip(prompts.tolist(), outputs.tolist(), strict=True)
    return [RequestLengths(*pair) for pair in pairs]


def _in_bands(law: LogNormal, n: int, rng: np.random.Generator) -> np.ndarray:
    """One draw from each of n equally likely bands, shuffled, as `LogNormal.draw`.

    The random numbers are numpy's: the lessons' texts are about these very requests.
    """
    bands = (rng.permutation(n) + rng.random(n)) / n
    return np.array([law.at(quantile) for quantile in bands.tolist()], dtype=int)
