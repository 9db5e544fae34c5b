"""Lab: where each mechanism of this series is in vLLM: its flag, metric and source.

`python tools/check_hand_over.py` looks all of it up in vLLM's own files.
"""

from typing import NamedTuple

VERSION = "0.32.0"  # of vLLM
SOURCE = f"https://github.com/vllm-project/vllm/blob/v{VERSION}/vllm"


class Place(NamedTuple):
    """A mechanism: what it is called there, and where ours is."""

    mechanism: str
    lesson: str
    flag: str  # of `vllm serve`; "": there is none
    metric: str  # without the prefix "vllm:"; "": there is none
    file: str  # below vllm/
    name: str  # a class or function in it
    ours: str  # a module, below minipaged/


PLACES = (
    Place("the pool of blocks", "2", "--num-gpu-blocks-override",
          "kv_cache_usage_perc", "v1/core/block_pool.py", "BlockPool",
          "memory/block_pool.py"),
    Place("the block table", "2", "--block-size", "", "v1/worker/gpu/block_table.py",
          "BlockTables", "memory/block_table.py"),
    Place("hashes of prefixes", "3", "--enable-prefix-caching", "prefix_cache_hits",
          "v1/core/kv_cache_utils.py", "hash_block_tokens", "memory/prefix_cache.py"),
    Place("which free block goes first (chosen nearly as here)", "3", "", "",
          "v1/core/kv_cache_utils.py", "FreeKVCacheBlockQueue",
          "memory/cached_blocks.py"),
    Place("beams (there without copies: each step asks anew, and finds the prefix)",
          "4", "", "", "entrypoints/generate/beam_search/online.py", "beam_search",
          "decoding/beam.py"),
    Place("softmax in parts, merged", "5", "", "",
          "v1/attention/ops/triton_merge_attn_states.py", "merge_attn_states",
          "attention/partial.py"),
    Place("attention as a Triton kernel", "6", "--attention-backend", "",
          "v1/attention/ops/triton_unified_attention.py", "kernel_unified_attention",
          "attention/kernels/decode.py"),
    Place("continuous batching", "A", "--max-num-batched-tokens",
          "num_requests_running", "v1/core/sched/scheduler.py", "Scheduler",
          "scheduling/scheduler.py"),
    Place("prompts in parts", "A", "--enable-chunked-prefill", "",
          "v1/core/sched/scheduler.py", "schedule", "scheduling/scheduler.py"),
    Place("preemption (there by recomputing only)", "B", "", "num_preemptions",
          "v1/core/sched/scheduler.py", "_preempt_request", "scheduling/preemption.py"),
    Place("swap (there as a second prefix cache in the CPU's memory, if asked for)",
          "B", "--kv-offloading-size", "",
          "distributed/kv_transfer/kv_connector/v1/offloading_connector.py",
          "OffloadingConnector", "memory/swap_space.py"),
    Place("CUDA graphs", "D", "--enforce-eager", "",
          "v1/worker/gpu/cudagraph_utils.py", "ModelCudaGraphManager",
          "model/graphs.py"),
    Place("a step ahead", "D", "--async-scheduling", "",
          "v1/core/sched/async_scheduler.py", "AsyncScheduler", "engine/ahead.py"),
    Place("guesses from the text", "E", "--speculative-config",
          "spec_decode_num_drafts", "v1/worker/gpu/spec_decode/ngram/speculator.py",
          "NgramGPUSpeculator", "decoding/prompt_lookup.py"),
    Place("guesses of a small model", "E", "--speculative-config",
          "spec_decode_num_accepted_tokens",
          "v1/worker/gpu/spec_decode/standalone_ar/speculator.py",
          "StandaloneARSpeculator", "decoding/draft_model.py"),
    Place("whether a drawn guess is taken", "E", "", "",
          "v1/worker/gpu/spec_decode/rejection_sampler_utils.py", "rejection_sample",
          "decoding/drawn_guesses.py"),
    Place("text and stop strings", "G", "", "",
          "v1/engine/detokenizer.py", "check_stop_strings", "serving/text.py"),
    Place("whoever leaves is aborted (counted by finished_reason=\"abort\")", "G",
          "", "request_success",
          "entrypoints/serve/utils/api_utils.py", "with_cancellation",
          "serving/job.py"),
    Place("keys", "G", "--api-key", "",
          "entrypoints/serve/middleware/authenticate.py",
          "AuthenticationMiddleware", "serving/limits.py"),
)  # fmt: skip


def hand_over() -> str:
    """The table, as Markdown."""
    lines = ["| mechanism | lesson | flag | metric | in vLLM | ours |"]
    lines.append("|---|---|---|---|---|---|")
    for place in PLACES:
        flag = f"`{place.flag}`" if place.flag else ""
        metric = f"`vllm:{place.metric}`" if place.metric else ""
        theirs = f"[`{place.name}`]({SOURCE}/{place.file})"
        ours = f"[{place.ours}](../minipaged/{place.ours})"
        lines.append(
            f"| {place.mechanism} | {place.lesson} | {flag} | {metric} | {theirs} "
            f"| {ours} |"
        )
    return "\n".join(lines)
