"""Lesson 2: the shipped pocket model, or any other, as plain transformers objects."""

import json
import os
from codecs import BOM_UTF8
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Literal

import torch
import transformers
from transformers import (
    CONFIG_MAPPING,
    MODEL_FOR_CAUSAL_LM_MAPPING,
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging

from minipaged.model.files import (
    AGAIN,
    check_generation_config,
    check_weights,
    explained,
    refuse_without_config,
    remedy_for_weights,
    where,
    without_foreign_code,
)

POCKET = Path(__file__).parent / "pocket"
# The second guesses for the first (appendix E), and has its tokenizer.
SHIPPED = {"pocket": POCKET, "pocket-draft": POCKET.with_name("pocket_draft")}
# Without this, transformers asks at the terminal, and runs code if the answer is yes.
_NO_CODE = {"trust_remote_code": False}


def load(
    name: str | os.PathLike | None = None,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
    *,
    tp: Literal["auto"] | None = None,
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Load a model and its tokenizer; both come back as plain transformers objects.

    Python code that comes with a model is never run.

    Args:
        name: "pocket" (shipped with the package, no network needed), a folder, or an
            id on the HuggingFace hub. Without a name, the variable
            MINIPAGED_MODEL decides, and "pocket" if that is not set. Shipped, too, is
            "pocket-draft", a smaller model that guesses for it.
        dtype: float32 makes token-for-token proofs possible.
        device: by default "cuda" if there is a GPU, else "cpu".
        tp: "auto" shares the model out among the processes that torchrun has started,
            all of which must run the same script: each loads its share of each layer's
            heads, on its own GPU. Without torchrun, it changes nothing.

    Raises FileNotFoundError for a name that is neither a folder nor found on the hub,
    and for missing files; ValueError for files that do not make a decoder and its
    tokenizer, and for a device that is not there; MemoryError without room for the
    weights; UnsupportedModel for a model that cannot be shared out; TypeError for other
    arguments.
    """
    if not isinstance(name, str | os.PathLike | None):
        raise TypeError(f"name must be a folder or an id on the hub, got {name!r:.60}")
    if not (isinstance(dtype, torch.dtype) and dtype.is_floating_point):
        raise TypeError(
            f"dtype must be a floating-point type, such as torch.float32, got {dtype!r}"
        )
    if tp not in (None, "auto") or (tp and device is not None):
        raise ValueError(
            f'tp must be "auto" or None, and goes without device, got {tp!r:.60}'
        )
    num_ranks = int(os.environ.get("WORLD_SIZE", "1")) if tp else 1
    together = nullcontext()
    if num_ranks == 1:
        device = _usable(device)
    else:
        from minipaged.model.parallel import connect, sharding  # appendix H

        together = connect().alike("mp.load")
    source, is_shipped = _source(name)
    with together, _no_bar(is_shipped):
        config = _load_config(source)
        tokenizer = _load_tokenizer(POCKET if is_shipped else source, config)
        share = sharding(config, num_ranks) if num_ranks > 1 else {}
        model = _load_weights(source, config, dtype, share)
        if share:  # transformers has put it on this rank's GPU
            return model.eval(), tokenizer
        with explained(f"the model of {where(source)}", f"does {device} work?"):
            return model.to(device).eval(), tokenizer


@contextmanager
def _no_bar(is_shipped: bool) -> Iterator[None]:
    """Reading 8 MB from the disk needs no progress bar; a real model does."""
    quiet = is_shipped and logging.is_progress_bar_enabled()
    if quiet:
        logging.disable_progress_bar()
    try:
        yield
    finally:
        if quiet:
            logging.enable_progress_bar()


def load_tokenizer(name: str | os.PathLike | None = None) -> PreTrainedTokenizerBase:
    """The tokenizer alone; name and errors are those of `load`."""
    source, is_shipped = _source(name)
    config = _load_config(source)
    return _load_tokenizer(POCKET if is_shipped else source, config)


def _source(name: str | os.PathLike | None) -> tuple[str | os.PathLike, bool]:
    """Where the files are; do they come with the package?"""
    name = os.fspath(name or os.environ.get("MINIPAGED_MODEL") or "pocket")
    return SHIPPED.get(name, os.path.expanduser(name)), name in SHIPPED


def _usable(device: torch.device | str | None) -> torch.device | str:
    """The device, if it works: better to know that before gigabytes are read."""
    if device is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    with explained(f"the device {device!r}", 'give "cpu", "cuda", or nothing'):
        torch.empty(1, device=device)
    return device


def _load_config(source: str | os.PathLike) -> PreTrainedConfig:
    """The config of a decoder that transformers knows; an error for anything else."""
    path = Path(source)
    place = where(source)
    if path.is_file():
        raise FileNotFoundError(f"{place} is a file; give the folder that it lies in")
    refuse_without_config(source)
    if path.is_dir():
        text = (path / "config.json").read_bytes()
        remedy = "save it as UTF-8, without a mark in front"
        with explained(
            f"config.json of {place}", remedy if text.startswith(BOM_UTF8) else AGAIN
        ):
            json.loads(text.decode())
            fields, _ = PreTrainedConfig.get_config_dict(source)
    else:
        remedy = (
            "it is no folder with a model, and the HuggingFace hub did not give it "
            'either (offline?); "pocket" always works'
        )
        with explained(place, remedy):
            fields, _ = PreTrainedConfig.get_config_dict(source)
    kind = fields.get("model_type") if isinstance(fields, dict) else None
    if not isinstance(kind, str):
        raise ValueError(f"config.json of {place} names no model_type; {AGAIN}")
    if kind not in CONFIG_MAPPING:
        remedy = "a newer transformers may know it"
        if "auto_map" in fields:
            remedy = (
                "it brings Python code for that (auto_map), which mp.load never runs. "
                "If you trust the code, load model and tokenizer by transformers with "
                "trust_remote_code=True, and give the model to mp.PagedModel"
            )
        raise ValueError(
            f"{place} is of the type {kind!r}, which transformers "
            f"{transformers.__version__} does not know; {remedy}"
        )
    with explained(f"config.json of {place}", AGAIN):
        config = AutoConfig.from_pretrained(source, **_NO_CODE)
        without_foreign_code(config)
    if config.is_encoder_decoder or type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING:
        what = "has an encoder" if config.is_encoder_decoder else "continues no text"
        raise ValueError(
            f"{place} is of the type {kind!r}, which {what}; give a decoder that "
            "continues text, such as llama or qwen3"
        )
    return config


def _load_tokenizer(
    source: str | os.PathLike, config: PreTrainedConfig
) -> PreTrainedTokenizerBase:
    """The tokenizer; ValueError if it cannot be that of the model."""
    remedy = (
        "put the model's tokenizer.json there (tokenizer.save_pretrained writes it), "
        "or load the model alone, by AutoModelForCausalLM.from_pretrained"
    )
    with explained(f"the tokenizer of {where(source)}", remedy):
        tokenizer = AutoTokenizer.from_pretrained(source, **_NO_CODE)
    known = len(tokenizer)
    wanted = config.get_text_config().vocab_size
    # Without its files, a tokenizer knows special tokens only, and turns texts into [].
    # Some models have more embeddings than tokens, but not twice as many.
    if 2 * known < wanted:
        raise ValueError(
            f"the tokenizer of {where(source)} has a vocabulary of {known}, and the "
            f"model of {wanted}: its files are missing, or another model's; {remedy}"
        )
    return tokenizer


def _load_weights(
    source: str | os.PathLike,
    config: PreTrainedConfig,
    dtype: torch.dtype,
    share: dict[str, Any],
) -> PreTrainedModel:
    """The model; ValueError if weights are missing, or are no plain numbers.

    share: what tells `from_pretrained` to load a rank's share of it.
    """
    check_generation_config(source)
    with explained(f"the model of {where(source)}", remedy_for_weights(source, config)):
        model, found = AutoModelForCausalLM.from_pretrained(
            source,
            config=config,
            dtype=dtype,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # they are named below
            **share,
            **_NO_CODE,
        )
    unfit = [*found["missing_keys"], *(key for key, *_ in found["mismatched_keys"])]
    if unfit:
        raise ValueError(
            f"{where(source)} lacks {len(unfit)} of the model's weights, or has them "
            f"in another shape ({min(unfit)}, ...), and transformers would fill them "
            f"with random numbers; {remedy_for_weights(source, config)}"
        )
    check_weights(source, model, found["unexpected_keys"])
    return model
