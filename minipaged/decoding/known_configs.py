"""Lesson 2: configs that come again and again, prepared once (the border)."""

import pickle
from collections.abc import Sequence

from transformers import GenerationConfig, PreTrainedModel, PreTrainedTokenizerBase

from minipaged.decoding.options import Options, PreparedConfig, prepare_config
from minipaged.decoding.own_processors import Processor
from minipaged.decoding.stop_strings import StopStrings

MOST = 256  # that are remembered


class KnownConfigs:
    """Resolves options as `resolve_options` does, and remembers prepared configs.

    A config is known by its values, and by those of the model's own config: either may
    be changed between two requests.
    """

    def __init__(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase | None = None
    ):
        """No config is known yet. `tokenizer`: of the model, for stop strings."""
        self._model = model
        self._stop_strings = StopStrings(tokenizer)
        self._prepared: dict[bytes, PreparedConfig] = {}

    def resolve(
        self,
        config: GenerationConfig | None,
        prompt: list[int],
        own_processors: Sequence[Processor] = (),
    ) -> Options:
        """The options of this prompt; raises as `resolve_options`."""
        prepared = self._prepare(config)
        return prepared.options(self._model, prompt, self._stop_strings, own_processors)

    def _prepare(self, config: GenerationConfig | None) -> PreparedConfig:
        of_model = self._model.generation_config
        try:
            key = pickle.dumps((config and vars(config), vars(of_model)))
        except Exception:  # a value that cannot be pickled: it is prepared anew
            return prepare_config(self._model, config)
        prepared = self._prepared.get(key)
        if prepared is None:
            prepared = prepare_config(self._model, config)
            if len(self._prepared) >= MOST:
                self._prepared.clear()
            self._prepared[key] = prepared
        return prepared
