"""Lab: `minipaged serve MODEL`: load it, and answer on a port.

    minipaged serve pocket --port 8000
    minipaged serve Qwen/Qwen3-0.6B --max-model-len 4096 --api-key secret

Flags have vLLM's names where vLLM has them.
"""

import argparse
import gc
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

from minipaged.progress import progress_bar

if TYPE_CHECKING:
    from fastapi import FastAPI

    from minipaged.engine.engine import Engine
    from minipaged.serving.hosts import Host

# A module without torch: --help must not wait for it.
_DTYPES = ("auto", "float32", "bfloat16", "float16")
_KEY = "MINIPAGED_API_KEY"
_SHARE = 0.9  # of a GPU's memory


def whole_number(text: str) -> int:
    """A flag's value, from 1."""
    if text.isdecimal() and int(text) > 0:
        return int(text)
    raise argparse.ArgumentTypeError(f"must be a whole number from 1, got {text}")


def _share(text: str) -> float:
    try:
        if 0 < (number := float(text)) <= 1:
            return number
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"must be more than 0 and at most 1, got {text}")


def _seconds(text: str) -> float:
    try:
        if 0 < (number := float(text)) < 1e9:
            return number
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"must be seconds, more than 0, got {text}")


def parser() -> argparse.ArgumentParser:
    """What the command understands."""
    made = argparse.ArgumentParser(prog="minipaged",
        description=__doc__.removeprefix("Lab: "),
        formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    commands = made.add_subparsers(required=True, metavar="serve")
    serve = commands.add_parser("serve", help="answer requests over HTTP",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter)  # fmt: skip
    add_flags(serve)
    return made


def add_flags(serve: argparse.ArgumentParser) -> None:
    """Those of a server."""
    add = serve.add_argument
    add("model", help='"pocket", a folder, or an id on the HuggingFace hub')
    add("--host", default="127.0.0.1", help="0.0.0.0: all networks of this machine")
    add("--port", type=int, default=8000, help="0: any that is free")
    add("--served-model-name", nargs="+", metavar="NAME",
        help="that clients ask for, instead of MODEL")  # fmt: skip
    add("--api-key", nargs="+", metavar="KEY", default=None,
        help=f"clients must have one of these; better in {_KEY}, with commas: a "
        "command line can be read by others")  # fmt: skip
    add("--dtype", choices=_DTYPES, default="auto",
        help="auto: bfloat16 on a GPU, else float32")  # fmt: skip
    add("--attention", choices=("gathered", "streamed", "triton"),
        help="by default triton on a GPU, else gathered")  # fmt: skip
    add("--deterministic", action="store_true",
        help="no answer depends on what else is served; slower")  # fmt: skip
    add("--run", choices=("eager", "graphs", "compiled"),
        help="kernel after kernel, from CUDA graphs, or compiled, too; by default "
        "graphs with triton on a GPU")  # fmt: skip
    add("--kv-cache-dtype", choices=("auto", "fp8", "fp8_v"), default="auto",
        help="fp8: K and V in 8 bits, if a text of the model's own agrees; fp8_v: V "
        "alone; auto: the model's type")  # fmt: skip
    add("--tensor-parallel-size", type=whole_number, default=1, metavar="RANKS",
        help="GPUs that share the model's heads, a process each")  # fmt: skip
    add("--max-model-len", type=whole_number, help="tokens of a prompt with its answer")
    add(
        "--num-blocks",
        type=whole_number,
        help="by default all that fit on a GPU, else 512",
    )
    add("--gpu-memory-utilization", type=_share, metavar="SHARE",
        help="of a GPU's memory, for weights, blocks and a step, if --num-blocks is "
        f"not given; by default {_SHARE}")  # fmt: skip
    add("--block-size", type=whole_number, default=16, help="tokens of a block")
    add("--max-num-seqs", type=whole_number, default=256, help="that run at one time")
    add("--max-num-batched-tokens", type=whole_number,
        help="of a step; by default 8192 on a GPU, else 2048")  # fmt: skip
    add("--enable-prefix-caching", action=argparse.BooleanOptionalAction, default=True,
        help="equal beginnings share blocks")  # fmt: skip
    add("--speculative-config", metavar="JSON",
        help="guess tokens, and check several in a step, as with vLLM: "
        """'{"method": "ngram", "num_speculative_tokens": 4}'""")  # fmt: skip
    add("--pool-page", action=argparse.BooleanOptionalAction, default=True,
        help="show the block pool at /pool")  # fmt: skip
    add("--max-queue", type=whole_number, default=1024, help="that wait; more get 429")
    add("--stream-interval", type=whole_number, default=1,
        help="tokens of an event of a stream: more are less work")  # fmt: skip
    add("--max-body-bytes", type=whole_number, default=1 << 20, help="more get 413")
    add(
        "--body-timeout", type=_seconds, default=30.0, help="seconds for a body to come"
    )
    add("--request-timeout", type=_seconds, default=600.0, help="seconds for an answer")
    add("--shutdown-timeout", type=whole_number, default=120,
        help="seconds in which answers may be completed after SIGTERM")  # fmt: skip
    add("--engine-process", action=argparse.BooleanOptionalAction, default=True,
        help="the engine has a process of its own, so that HTTP never slows its steps "
        "down; without, a thread, which takes less memory")  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until SIGTERM or Ctrl-C; answers that run are completed."""
    made = parser()
    given = made.parse_args(arguments)
    try:
        import fastapi  # noqa: F401
        import prometheus_client  # noqa: F401
        import uvicorn
    except ImportError as error:
        made.error(f"{error}; a server needs the extra: pip install '.[serve]'")
    with ExitStack() as last:
        try:
            host = make_host(given)
            last.callback(host.stop)
            app = build(given, host)
        except (OSError, ValueError, MemoryError) as error:
            made.error(str(error))
        # The collector would look at torch's objects again and again.
        gc.collect()
        gc.freeze()
        config = uvicorn.Config(
            app, given.host, given.port,
            access_log=False, timeout_graceful_shutdown=given.shutdown_timeout,
        )  # fmt: skip
        server = uvicorn.Server(config)
        if given.pool_page:  # whoever watches does not hold up the end
            app.state.pool_watch.is_over = lambda: server.should_exit

        def end() -> None:
            server.should_exit = True
            last.callback(sys.exit, "the engine has ended: see above")

        app.state.link.on_loss = end
        with suppress(KeyboardInterrupt):  # uvicorn raises it again when all is done
            server.run()


def make_host(given: argparse.Namespace) -> "Host":
    """Where the engine lives; it is made there."""
    from minipaged.serving.hosts import EngineInProcess, EngineInThread

    if given.engine_process:
        return EngineInProcess(lead, given)
    return EngineInThread(lead(given))


def lead(given: argparse.Namespace) -> "Engine":
    """The server's engine; if ranks share its model, that of rank 0."""
    if given.tensor_parallel_size == 1:
        return make_engine(given)
    from minipaged.serving.other_ranks import start_other_ranks

    start_other_ranks(given.tensor_parallel_size, follow, given)
    engine = make_engine(given)
    engine.others_serve = True
    return engine


def follow(given: argparse.Namespace) -> None:
    """What the other ranks do until rank 0's engine has stopped."""
    engine = make_engine(given)
    engine.serve()
    engine.stop()


def make_engine(given: argparse.Namespace) -> "Engine":
    """The engine that the flags describe; raises what `load` and `PagedModel` raise."""
    with progress_bar(desc="start", total=3, unit=" parts") as bar:
        import torch

        from minipaged.engine.engine import Engine
        from minipaged.memory.prefix_cache import PrefixCache
        from minipaged.model.load import load
        from minipaged.model.paged_model import PagedModel
        from minipaged.serving.speculative import speculation_of

        on_gpu = torch.cuda.is_available()
        if given.gpu_memory_utilization and not on_gpu:
            raise ValueError(
                "--gpu-memory-utilization needs a GPU, and torch sees none here; "
                "leave it out, and say by --num-blocks how large the pool is"
            )
        dtype = given.dtype
        if dtype == "auto":
            dtype = "bfloat16" if on_gpu else "float32"
        attention = given.attention or ("triton" if on_gpu else "gathered")
        tp = "auto" if given.tensor_parallel_size > 1 else None
        model, tokenizer = load(given.model, getattr(torch, dtype), tp=tp)
        bar.update()
        paged = PagedModel(
            model,
            given.num_blocks or ("auto" if on_gpu else 512),
            given.block_size,
            attention,
            deterministic=given.deterministic,
            gpu_memory_utilization=given.gpu_memory_utilization or _SHARE,
            kv_dtype=None if given.kv_cache_dtype == "auto" else given.kv_cache_dtype,
        )
        bar.update()
        engine = Engine(
            paged,
            PrefixCache(paged.pool) if given.enable_prefix_caching else None,
            max_tokens=given.max_num_batched_tokens or (8192 if on_gpu else 2048),
            max_sequences=given.max_num_seqs,
            tokenizer=tokenizer,
            run=given.run,
            speculation=given.speculative_config
            and speculation_of(given.speculative_config, paged, attention, dtype),
        )
        bar.update()
    return engine


def build(given: argparse.Namespace, host: "Host") -> "FastAPI":
    """The app that the flags describe, over an engine that may not be ready yet."""
    from minipaged.model.load import load_tokenizer
    from minipaged.serving.app import make_app
    from minipaged.serving.limits import Limits

    tokenizer = load_tokenizer(given.model)
    about = host.about
    room = about.num_blocks * about.block_size
    longest = min(about.num_positions or room, room)
    if (wanted := given.max_model_len or longest) > longest:
        raise ValueError(
            f"--max-model-len {wanted}: the model's positions and {room} slots of the "
            f"pool allow {longest}; lower it, or raise --num-blocks"
        )
    keys = given.api_key or [k for k in os.environ.get(_KEY, "").split(",") if k]
    return make_app(
        host,
        tokenizer,
        given.served_model_name or [given.model],
        max_model_len=wanted,
        api_keys=keys,
        limits=Limits(
            given.max_body_bytes,
            given.body_timeout,
            given.request_timeout,
            given.max_queue,
            given.stream_interval,
        ),
        pool_page=given.pool_page,
    )
