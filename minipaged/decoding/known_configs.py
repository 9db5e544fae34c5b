"""Lesson 2: configs that come again and again, prepared once (the border)."""

import pickle
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from transformers import GenerationConfig, PreTrainedModel, PreTrainedTokenizerBase

from minipaged.decoding.options import Options, PreparedConfig, prepare_config
from minipaged.decoding.own_processors import Processor
from minipaged.decoding.stop_strings import StopStrings
from minipaged.errors import UnsupportedOption

if TYPE_CHECKING:
    from minipaged.decoding.speculation import Speculation

MOST = 256  # that are remembered


class KnownConfigs:
    """Resolves options as `resolve_options` does, and remembers prepared configs.

    A config is known by its values, and by those of the model's own config: either may
    be changed between two requests. Two that differ in max_new_tokens alone are one:
    each answer may have another length, and to prepare a config on a GPU waits for the
    step that it computes.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase | None = None,
        speculation: "Speculation | None" = None,
    ):
        """No config is known yet.

        tokenizer: of the model, for stop strings. speculation: guesses for all requests
        (appendix E).
        """
        self._model = model
        self._speculation = speculation
        self._stop_strings = StopStrings(tokenizer)
        self._prepared: dict[bytes, PreparedConfig] = {}

    def resolve(
        self,
        config: GenerationConfig | None,
        prompt: list[int],
        own_processors: Sequence[Processor] = (),
        num_guesses: int | None = None,
    ) -> Options:
        """The options of this prompt; raises as `resolve_options`.

        num_guesses: at a time, at most; by default, as many as `speculation` guesses.
        Raises UnsupportedOption, too, for beams that are to be guessed.
        """
        prepared = self._prepare(config)
        max_new_tokens = None if config is None else config.max_new_tokens
        options = prepared.options(
            self._model, prompt, self._stop_strings, own_processors, max_new_tokens
        )
        speculation = self._speculation
        if speculation is None or num_guesses == 0:
            return options
        if options.num_beams > 1:
            raise UnsupportedOption(
                f"num_beams={options.num_beams} with speculation is not supported: a "
                "beam may be dropped for a better one, so its next tokens cannot be "
                "checked ahead; leave speculation unset, or add the request to an "
                "Engine with num_guesses=0"
            )
        return replace(options, speculation=speculation, num_guesses=num_guesses)

    def _prepare(self, config: GenerationConfig | None) -> PreparedConfig:
        of_model = self._model.generation_config
        try:
            key = key_of(config, of_model)
        except Exception:  # a value that cannot be pickled: it is prepared anew
            return prepare_config(self._model, config)
        prepared = self._prepared.get(key)
        if prepared is None:
            prepared = prepare_config(self._model, config)
            if len(self._prepared) >= MOST:
                self._prepared.clear()
            self._prepared[key] = prepared
        return prepared


def key_of(config: GenerationConfig | None, of_model: GenerationConfig) -> bytes:
    """The values of both; of the first one's max_new_tokens, only that it is valid."""
    values = config and vars(config)
    if config and type(config.max_new_tokens) is int and config.max_new_tokens > 0:
        values = values | {"max_new_tokens": "a number"}
    return pickle.dumps((values, vars(of_model)))
