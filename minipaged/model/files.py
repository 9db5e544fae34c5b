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
# Ways to compute inside transformers. Any other name may mean code from the hub.
_ATTENTION = (None, "eager", "sdpa")
_EXPERTS = (None, "eager", "batched_mm", "grouped_mm")
# Names beside a weight that say that its numbers must be scaled.
_SCALES = ("_scale", "_scale_inv", "_scales", ".SCB", ".absmax")


def where(source: str | os.PathLike) -> str:
    """The source's name in errors, such as: the model 'Qwen/Qwen3-0.6B'."""
    return f"the {'folder' if Path(source).is_dir() else 'model'} {str(source)!r}"


def file_of(source: str | os.PathLike, name: str, **options: bool) -> Path | None:
    """The path of a file in the folder, or fetched from the hub; None without it."""
    try:
        found = cached_file(source, name, **options)
    except OSError:
        return None
    return found and Path(found)


@contextmanager
def explained(what: str, remedy: str) -> Iterator[None]:
    """Make any error within say what cannot be used, why, and what to do."""
    try:
        yield
    except Exception as error:
        if is_out_of_memory(error):
            raise MemoryError(
                f"{what} has no room in memory; dtype=torch.bfloat16 takes half as "
                "much as float32, and smaller models take less"
            ) from error
        kind = FileNotFoundError if isinstance(error, OSError) else ValueError
        # Their first sentence is enough: the next may advise to switch a guard off.
        reason = " ".join(f"{type(error).__name__}: {error}".split()).split(". ")[0]
        raise kind(f"{what} cannot be used ({reason:.200}); {remedy}") from error


def refuse_without_config(source: str | os.PathLike) -> None:
    """Raise FileNotFoundError for a folder without a model, and for an adapter."""
    if file_of(source, "config.json") is not None:
        return
    if adapter := file_of(source, "adapter_config.json"):
        with explained(f"adapter_config.json of {where(source)}", AGAIN):
            fields = json.loads(adapter.read_text("utf-8"))
            kind = fields["peft_type"]
            base = fields["base_model_name_or_path"]
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
    if Path(source).is_dir():  # for an id, the hub's error says why
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
    """Let transformers compute attention and experts, whatever the config says.

    A config may name a repository instead, whose code would be fetched and run. Our
    attention takes the place of the model's anyway.
    """
    parts = [getattr(config, name, None) for name in config.sub_configs]
    for part in (config, *(part for part in parts if part is not None)):
        if part._attn_implementation not in _ATTENTION:
            part._attn_implementation = None
        if part._experts_implementation not in _EXPERTS:
            part._experts_implementation = None


def remedy_for_weights(source: str | os.PathLike, config: PreTrainedConfig) -> str:
    """What to do if the weights cannot be loaded.

    Raises ValueError if they are quantised by a method that transformers lacks.
    """
    quantization = getattr(config, "quantization_config", None)
    if quantization is None:
        return _remedy_for_gguf(source) or AGAIN
    is_dict = isinstance(quantization, dict)
    fields = quantization if is_dict else quantization.to_dict()
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
    """Raise ValueError for a damaged file, which transformers would skip in silence."""
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
    """Raise ValueError for weights that were loaded as plain numbers, but are not.

    Integers may have to be multiplied by scales, and so may floats of 8 bits.
    """
    if getattr(model.config, "quantization_config", None) is not None:
        return
    names = [f".{name}" for name, _ in model.named_parameters()]
    wrong = [key for key in unexpected if key.endswith(_SCALES) and "weight" in key]
    for file in _weight_files(source):
        with safe_open(file, "pt") as weights:
            keys = weights.keys()
            kinds = {key: weights.get_slice(key).get_dtype() for key in keys}
        others = [k for k, kind in kinds.items() if not kind.startswith(("F", "BF"))]
        wrong += [k for k in others if any(name.endswith(f".{k}") for name in names)]
    if wrong:
        raise ValueError(
            f"{where(source)} has weights that are whole numbers, truth values, "
            f"complex or scaled ({min(wrong)}, ...), and its config.json has no "
            f"quantization_config that says how to read them; {AGAIN}"
        )


def _weight_files(source: str | os.PathLike) -> list[Path]:
    """The files of safetensors, which have been fetched before."""
    local = {"local_files_only": True}
    names = ["model.safetensors"]
    if index := file_of(source, "model.safetensors.index.json", **local):
        with explained(f"{index.name} of {where(source)}", AGAIN):
            weight_map = json.loads(index.read_text("utf-8"))["weight_map"]
            names = sorted(set(map(str, weight_map.values())))
    files = (file_of(source, name, **local) for name in names)
    return [file for file in files if file is not None]
