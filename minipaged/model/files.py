"""Lesson 2: files that make no plain model, and what to do with each (the border)."""

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import safe_open
from transformers import GenerationConfig, PreTrainedConfig, PreTrainedModel
from transformers.quantizers.auto import AutoHfQuantizer
from transformers.utils import cached_file

from minipaged.errors import is_out_of_memory

AGAIN = "is the download complete? Fetch the model again, or save it again"
# Ways to compute that are transformers' own. Others may be code from the hub.
_ATTENTION = (None, "eager", "sdpa")
_EXPERTS = (None, "eager", "batched_mm", "grouped_mm")
# What beside a weight says that its numbers are not what they seem.
_SCALES = ("_scale", "_scale_inv", "_scales", ".SCB", ".absmax")


def where(source: str | os.PathLike) -> str:
    """The source as it is called in errors."""
    return f"the {'folder' if Path(source).is_dir() else 'model'} {str(source)!r}"


def file_of(source: str | os.PathLike, name: str, **options: bool) -> Path | None:
    """Where the file of this name lies, in the folder or fetched; None without it."""
    try:
        found = cached_file(source, name, **options)
    except OSError:
        return None
    return found and Path(found)


@contextmanager
def explained(what: str, remedy: str) -> Iterator[None]:
    """Say what cannot be used, why, and what to do, whatever is raised within."""
    try:
        yield
    except Exception as error:
        if is_out_of_memory(error):
            raise MemoryError(
                f"{what} has no room in memory; dtype=torch.bfloat16 takes half as "
                "much as float32, and smaller models take less"
            ) from error
        kind = FileNotFoundError if isinstance(error, OSError) else ValueError
        # A sentence of theirs is enough: the next may advise to switch a guard off.
        reason = " ".join(f"{type(error).__name__}: {error}".split()).split(". ")[0]
        raise kind(f"{what} cannot be used ({reason:.200}); {remedy}") from error


def refuse_without_config(source: str | os.PathLike) -> None:
    """Raise FileNotFoundError if a folder, or what the hub has, is no model at all."""
    if file_of(source, "config.json") is not None:
        return
    if adapter := file_of(source, "adapter_config.json"):
        with explained(f"adapter_config.json of {where(source)}", AGAIN):
            fields = json.loads(adapter.read_text("utf-8"))
            kind, base = fields["peft_type"], fields["base_model_name_or_path"]
        remedy = (
            "load that, and put the adapter in: model, tokenizer = "
            f"mp.load({base!r}); model = peft.PeftModel.from_pretrained(model, "
            f"{str(source)!r}).merge_and_unload()"
        )
        if "num_virtual_tokens" in fields:
            remedy = "its soft prompts are no tokens, so it cannot be served here"
        raise FileNotFoundError(
            f"{where(source)} is no model, but an adapter ({kind}) of {base!r}; "
            f"{remedy}"
        )
    if Path(source).is_dir():  # of anything else the hub says why
        remedy = _remedy_for_gguf(source) or (
            "give a folder that model.save_pretrained has written, or that was fetched "
            "from the HuggingFace hub"
        )
        raise FileNotFoundError(f"{where(source)} has no config.json; {remedy}")


def _remedy_for_gguf(source: str | os.PathLike) -> str | None:
    files = sorted(Path(source).glob("*.gguf")) if Path(source).is_dir() else None
    return files and (
        "it has GGUF: load model and tokenizer by transformers, both with "
        f"from_pretrained({str(source)!r}, gguf_file={files[0].name!r}), which needs "
        "the library gguf, and give the model to mp.PagedModel"
    )


def without_foreign_code(config: PreTrainedConfig) -> None:
    """Attention and experts are computed by transformers itself, whatever is said.

    A config may name a repository instead, whose code would be fetched and run. Ours
    takes the place of attention anyway.
    """
    parts = [getattr(config, name, None) for name in config.sub_configs]
    for each in (config, *(part for part in parts if part is not None)):
        if each._attn_implementation not in _ATTENTION:
            each._attn_implementation = None
        if each._experts_implementation not in _EXPERTS:
            each._experts_implementation = None


def remedy_for_weights(source: str | os.PathLike, config: PreTrainedConfig) -> str:
    """What to do if they cannot be loaded; ValueError for a way that nobody knows."""
    said = getattr(config, "quantization_config", None)
    if said is None:
        return _remedy_for_gguf(source) or AGAIN
    fields = said if isinstance(said, dict) else said.to_dict()
    method = fields.get("quant_method")
    remedy = "a newer transformers may know it, or give the model as it was before"
    with explained(f"quantization_config of {where(source)}", remedy):
        if not AutoHfQuantizer.supports_quant_method(fields):
            raise ValueError(f"transformers does not know quant_method {method!r}")
    return (
        f"its weights are quantised ({method}), which needs what is named here: "
        "install that, or give the model as it was before"
    )


def check_generation_config(source: str | os.PathLike) -> None:
    """Raise ValueError if it is damaged: transformers would leave it out in silence."""
    file = file_of(source, "generation_config.json")
    if file is None:
        return
    remedy = "fetch it again, or delete it: then only what config.json says is set"
    with explained(f"generation_config.json of {where(source)}", remedy):
        json.loads(file.read_text("utf-8"))
        GenerationConfig.from_pretrained(file.parent)


def check_weights(
    source: str | os.PathLike, model: PreTrainedModel, unexpected: Iterable[str]
) -> None:
    """Raise ValueError for weights that are no plain numbers, and were loaded as such.

    Integers may stand for others, by scales, and so may floats of 8 bits.
    """
    if getattr(model.config, "quantization_config", None) is not None:
        return
    names = [f".{name}" for name, _ in model.named_parameters()]
    wrong = [key for key in unexpected if key.endswith(_SCALES) and "weight" in key]
    for file in _weight_files(source):
        with safe_open(file, "pt") as weights:
            keys = weights.keys()
            kinds = {key: weights.get_slice(key).get_dtype() for key in keys}
        whole = [key for key, kind in kinds.items() if not kind.startswith(("F", "BF"))]
        wrong += [k for k in whole if any(name.endswith(f".{k}") for name in names)]
    if wrong:
        raise ValueError(
            f"{where(source)} has weights that are whole numbers, truth values, "
            f"complex or scaled ({min(wrong)}, ...), and its config.json has no "
            f"quantization_config that says how to read them; {AGAIN}"
        )


def _weight_files(source: str | os.PathLike) -> list[Path]:
    """Files of safetensors that are there; they have been fetched before."""
    here = {"local_files_only": True}
    names = ["model.safetensors"]
    if index := file_of(source, "model.safetensors.index.json", **here):
        with explained(f"{index.name} of {where(source)}", AGAIN):
            weight_map = json.loads(index.read_text("utf-8"))["weight_map"]
            names = sorted(set(map(str, weight_map.values())))
    files = (file_of(source, name, **here) for name in names)
    return [file for file in files if file is not None]
