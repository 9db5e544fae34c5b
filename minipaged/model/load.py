"""Lesson 2: the shipped pocket model, or any other, as plain transformers objects."""

import os
from pathlib import Path

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging

POCKET = Path(__file__).parent / "pocket"


def load(
    name: str | os.PathLike | None = None,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Load a model and its tokenizer; both come back as plain transformers objects.

    Args:
        name: "pocket" (shipped with the package, no network needed), a folder, or an
            id on the HuggingFace hub. Without one, the environment variable
            MINIPAGED_MODEL decides, and "pocket" if that is not set.
        dtype: float32 is what makes token-for-token proofs possible.
        device: "cuda" if there is one and none is given, else "cpu".

    Raises FileNotFoundError for a name that is neither a folder nor found on the hub.
    """
    name = name or os.environ.get("MINIPAGED_MODEL") or "pocket"
    source = POCKET if name == "pocket" else name
    # Reading 8 MB from the disk needs no progress bar; a real model does.
    quiet = name == "pocket" and logging.is_progress_bar_enabled()
    if quiet:
        logging.disable_progress_bar()
    if Path(source).is_dir() and not (Path(source) / "config.json").exists():
        raise FileNotFoundError(f"the folder {str(source)!r} has no config.json")
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        tokenizer = AutoTokenizer.from_pretrained(source)
        model = AutoModelForCausalLM.from_pretrained(source, dtype=dtype)
    except OSError as error:
        raise FileNotFoundError(
            f"no model {str(name)!r}: it is no folder with a model, and the HuggingFace"
            ' hub did not give it either (offline?); "pocket" always works'
        ) from error
    finally:
        if quiet:
            logging.enable_progress_bar()
    return model.to(device).eval(), tokenizer
