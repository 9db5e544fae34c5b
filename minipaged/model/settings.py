"""Lesson 2: what a model's modules are set to, and what has changed (the border)."""

from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Any, NamedTuple

from torch import nn
from transformers import PreTrainedConfig

from minipaged.model.twin import configs_of, is_of_huggingface, is_own_method

# Attributes of every module: `Original` compares its parts and weights.
_HOOKS = {"_forward_pre_hooks", "_forward_hooks"}
_PARTS = vars(nn.Module()).keys() - {"training"} - _HOOKS
# HuggingFace writes these while a model generates, or is prepared to be trained.
_NOTES = {
    "_compiled_call", "_compiled_call_impl", "_gradient_checkpointing_func",
    "_is_hf_initialized", "_last_compile_config", "generation_config",
    "gradient_checkpointing", "max_seq_len_cached", "warnings_issued",
}  # fmt: skip
# Fields of a config that a forward does not read, or is given at each call.
_NO_CONCERN = {
    "architectures", "bos_token_id", "dtype", "eos_token_id", "output_attentions",
    "output_hidden_states", "pad_token_id", "problem_type", "return_dict",
    "tie_word_embeddings", "torch_dtype", "transformers_version", "use_cache",
}  # fmt: skip


class Setting(NamedTuple):
    """An attribute of a module, or of a config."""

    owner: int  # the number of that module or config
    path: str  # such as model.layers.0.mlp
    name: str


class Settings:
    """The settings of a model's modules and their configs when this is made.

    Settings are classes, hooks, and all attributes: they say whether an adapter or
    dropout is on. Lists, sets and dicts are looked into, other objects are not.
    """

    def __init__(self, model: nn.Module):
        """Note all settings. Dicts of attributes are held: they show later changes."""
        modules = dict(model.named_modules())
        configs = [c for c in configs_of(model) if isinstance(c, PreTrainedConfig)]
        self._owners = [*modules.values(), *configs]
        self._paths = [*modules, *["config"] * len(configs)]
        self._attributes = [vars(owner) for owner in self._owners]
        self._classes = list(map(type, self._owners))
        self._noted = [dict(_settings_of(owner)) for owner in self._owners]
        self._prepare()

    def _prepare(self) -> None:
        self._lengths = list(map(len, self._attributes))
        pairs = zip(self._noted, self._attributes, strict=True)
        reads = [(itemgetter(*noted), noted, now) for noted, now in pairs if noted]
        self._reads = [(read, now) for read, _, now in reads]
        self._values = [read(noted) for read, noted, _ in reads]

    def overlook(self, settings: Iterable[Setting]) -> None:
        """Allow changes of these settings: modules write to them as they run."""
        for owner, _, name in settings:
            self._noted[owner].pop(name, None)
        self._prepare()

    def have_changed(self) -> bool:
        """Has any of the settings changed?

        Each request asks this of some hundred modules. So Python loops over them only
        if something is different.
        """
        try:
            same = [read(now) for read, now in self._reads] == self._values
        except Exception:  # an attribute is gone, or cannot be compared
            same = False
        same &= list(map(type, self._owners)) == self._classes
        same &= list(map(len, self._attributes)) == self._lengths
        if same:
            return False
        if any(self.changes()):
            return True
        for noted, now in zip(self._noted, self._attributes, strict=True):
            noted |= {name: _copy(now[name]) for name in _HOOKS & noted.keys()}
        self._prepare()  # new attributes do not matter: they are known now
        return False

    def changes(self) -> Iterator[Setting]:
        """Settings that have changed, and new attributes that hide the class's."""
        for owner, noted in enumerate(self._noted):
            kind = self._classes[owner]
            now = self._attributes[owner]
            changed = [] if type(self._owners[owner]) is kind else ["__class__"]
            for name, value in noted.items():
                if name not in now or not _same(name, now[name], value):
                    changed.append(name)
            if len(now) != self._lengths[owner]:
                for name, value in _settings_of(self._owners[owner]):
                    of_class = getattr(kind, name, value)
                    if name not in noted and not _same(name, of_class, value):
                        changed.append(name)
            yield from (Setting(owner, self._paths[owner], name) for name in changed)


def _settings_of(owner: nn.Module | PreTrainedConfig) -> Iterator[tuple[str, Any]]:
    """The names and copies of this module's or config's settings."""
    for name, value in vars(owner).items():
        if isinstance(owner, PreTrainedConfig):
            skipped = name.startswith("_") or name in _NO_CONCERN
        else:
            skipped = name in _PARTS or name in _NOTES
        if not skipped and not is_own_method(owner, name):
            yield name, _copy(value)


def _copy(value: Any) -> Any:
    """The value in new containers, except for those of more than 1,000 entries."""
    if not isinstance(value, dict | list | set | tuple) or len(value) > 1000:
        return value
    if isinstance(value, dict):
        return {key: _copy(entry) for key, entry in value.items()}
    kind = next(kind for kind in (list, set, tuple) if isinstance(value, kind))
    return kind(map(_copy, value))


def _same(name: str, now: Any, then: Any) -> bool:
    if name in _HOOKS:
        now = _of_users(now)
        then = _of_users(then)
    try:
        return now is then or bool(now == then)
    except Exception:  # tensors, say
        return False


def _of_users(hooks: dict) -> dict:
    return {key: hook for key, hook in hooks.items() if not is_of_huggingface(hook)}
