"""HuggingFace's processors for what a row asks for, in the order of `generate`."""

from transformers import LogitsProcessorList
from transformers.generation import logits_process as processors

from minipaged.decoding.row_options import RowOptions


def warpers_of(options: RowOptions) -> LogitsProcessorList:
    """Of a row that is drawn; what is off has none, but for min-p, which may be 0."""
    chain = [processors.TemperatureLogitsWarper(1 / options.sharpness)]
    if options.top_k:
        chain.append(processors.TopKLogitsWarper(options.top_k))
    if options.top_p < 1:
        chain.append(processors.TopPLogitsWarper(options.top_p))
    chain.append(processors.MinPLogitsWarper(options.min_p))
    return LogitsProcessorList(chain)
