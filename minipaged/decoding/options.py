"""Lesson 2: one dialect, HuggingFace's GenerationConfig, resolved for one prompt.

No other module calls HuggingFace's private generation helpers. They decide what an
unset field means, and which logits processors a config asks for. So ours cannot differ.
"""

from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from sys import intern
from typing import TYPE_CHECKING, Any

import torch
from transformers import (
    GenerationConfig,
    LogitsProcessorList,
    PreTrainedModel,
    StopStringCriteria,
)
from transformers.generation import logits_process as processors

from minipaged.decoding.own_processors import Guarded, Processor
from minipaged.decoding.stop_strings import StopStrings, has_reached
from minipaged.errors import PromptTooLong, UnsupportedOption, require_counts
from minipaged.model.positions import num_positions

if TYPE_CHECKING:
    from minipaged.decoding.row_options import RowOptions
    from minipaged.decoding.speculation import Speculation

HONOURED = {
    "bad_words_ids", "begin_suppress_tokens", "bos_token_id", "do_sample",
    "early_stopping", "encoder_no_repeat_ngram_size", "encoder_repetition_penalty",
    "eos_token_id", "epsilon_cutoff", "eta_cutoff", "exponential_decay_length_penalty",
    "forced_bos_token_id", "forced_eos_token_id", "length_penalty", "max_length",
    "max_new_tokens", "min_length", "min_new_tokens", "min_p", "no_repeat_ngram_size",
    "num_beams", "num_return_sequences", "pad_token_id", "remove_invalid_values",
    "renormalize_logits", "repetition_penalty", "sequence_bias", "stop_strings",
    "suppress_tokens", "temperature", "top_h", "top_k", "top_p", "typical_p",
}  # fmt: skip
# These change how HuggingFace works, or the form of its result, but no token.
IRRELEVANT = {
    "_from_model_config", "compile_config", "continuous_batching_config",
    "disable_compile", "max_cache_len", "prefill_chunk_size", "return_dict_in_generate",
    "transformers_version", "use_cache",
}  # fmt: skip
# Values that switch an option off, besides None, False and HuggingFace's default.
OFF = {"guidance_scale": 1.0, "penalty_alpha": 0.0}
# Processors that read the logits alone, so that requests can share a call.
HISTORY_FREE = (
    processors.EpsilonLogitsWarper,
    processors.EtaLogitsWarper,
    processors.InfNanRemoveLogitsProcessor,
    processors.LogitNormalization,
    processors.MinPLogitsWarper,
    processors.SuppressTokensLogitsProcessor,
    processors.TemperatureLogitsWarper,
    processors.TopHLogitsWarper,
    processors.TopKLogitsWarper,
    processors.TopPLogitsWarper,
    processors.TypicalLogitsWarper,
)


@dataclass(frozen=True)
class Options:
    """What a request asks for, every field decided."""

    max_new_tokens: int
    eos_ids: frozenset[int]
    do_sample: bool
    num_sequences: int
    processors: LogitsProcessorList
    num_beams: int
    length_penalty: float
    early_stopping: bool | str
    # Requests with equal keys may share one call of the processors. None: the request
    # needs a call alone, because its processors read its tokens so far.
    batch_key: str | None
    stop_test: StopStringCriteria | None = None  # of stop strings
    stop_start: int = 0  # the first token that a stop string may begin in
    # Appendix A: how many of the likeliest tokens; None: no logprobs are wanted.
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    speculation: "Speculation | None" = None  # appendix E: who guesses the next tokens
    num_guesses: int | None = None  # at a time; None: as many as it guesses

    def ends(self, tokens: list[int]) -> bool:
        """Does the last of these tokens, prompt included, end the text?"""
        if tokens[-1] in self.eos_ids:
            return True
        if self.stop_test is None:
            return False
        return has_reached(self.stop_test, tokens, self.stop_start)

    @property
    def num_parallel(self) -> int:
        """How many sequences may grow at one time: samples or beams."""
        return max(self.num_sequences, self.num_beams)

    @cached_property
    def of_rows(self) -> "RowOptions | None":
        """Appendix A: the processors as four numbers; None if that is impossible."""
        from minipaged.decoding.row_options import row_options

        return row_options(self.processors, self.do_sample)


def resolve_options(
    model: PreTrainedModel,
    config: GenerationConfig | None,
    prompt: list[int],
    stop_strings: StopStrings | None = None,
    own_processors: Iterable[Processor] = (),
) -> Options:
    """What `model.generate(prompt, generation_config=config)` would do, as Options.

    `own_processors` are the `logits_processor` of that call. One difference: generation
    ends at the model's last position (`num_positions`). HuggingFace goes on
    where it can, into positions that the model has never seen.

    Raises PromptTooLong for a prompt without room for a new token, UnsupportedOption
    for a field that is set and not honoured here, and ValueError for values that
    HuggingFace rejects, such as stop strings without a tokenizer.
    """
    prepared = prepare_config(model, config)
    return prepared.options(
        model, prompt, stop_strings or StopStrings(), own_processors
    )


def prepare_config(
    model: PreTrainedModel, config: GenerationConfig | None
) -> "PreparedConfig":
    """The config, merged with the model's own as HuggingFace does it, and checked.

    Raises as `resolve_options` does for what depends on no prompt.
    """
    # HuggingFace looks at both before it merges them: "unset" means set in neither.
    of_model = model.generation_config
    given = config or GenerationConfig()
    max_unset = of_model.max_length is None and given.max_length is None
    min_unset = of_model.min_length is None and given.min_length is None
    config, _ = model._prepare_generation_config(config)
    refuse_unsupported_fields(config, given, of_model)
    _check_values(config)
    model._prepare_special_tokens(config, True, device=model.device, batch_size=1)
    return PreparedConfig(config, max_unset, min_unset, num_positions(model.config))


class PreparedConfig:
    """A merged config: what many prompts can be resolved with."""

    def __init__(
        self,
        config: GenerationConfig,
        max_unset: bool,
        min_unset: bool,
        positions: int | None,
    ):
        """Made by `prepare_config`. positions: of the model, if it says how many."""
        self._config = config
        self._unset = {
            "has_default_max_length": max_unset,
            "has_default_min_length": min_unset,
        }
        self._positions = positions
        # Read once: on a GPU, to read waits for all that it computes.
        eos_ids = config._eos_token_tensor
        self._eos_ids = frozenset([] if eos_ids is None else eos_ids.tolist())
        # Processors that read logits alone, and their key: right for every prompt.
        self._shared: tuple[LogitsProcessorList, str] | None = None

    def options(
        self,
        model: PreTrainedModel,
        prompt: list[int],
        stop_strings: StopStrings,
        own_processors: Iterable[Processor] = (),
        max_new_tokens: int | None = None,
    ) -> Options:
        """What this config means for this prompt: see `resolve_options`.

        max_new_tokens: if the config says how many, it may be another number.
        """
        config = copy(self._config)
        if max_new_tokens is not None:
            config.max_new_tokens = max_new_tokens
        _refuse_padding(config, prompt)
        beams = config.num_beams or 1
        stop_test = stop_strings.for_strings(config.stop_strings, beams)
        config = model._prepare_generated_length(
            config,
            **self._unset,
            model_input_name="input_ids",
            input_ids_length=len(prompt),
            inputs_tensor=None,
        )
        positions = self._positions or config.max_length
        # The last token of all needs no position: nothing is computed from it.
        longest = min(config.max_length, positions + 1)
        if len(prompt) >= longest and len(prompt) >= positions:
            what = "the model's number of positions"
            raise PromptTooLong(len(prompt), positions, what, "shorten the prompt")
        if len(prompt) >= longest:
            remedy = "set max_new_tokens instead"
            length = config.max_length
            raise PromptTooLong(len(prompt), length, "max_length", remedy)
        config.max_length = longest
        chain, key = self._processors(model, config, prompt, own_processors)
        return Options(
            max_new_tokens=longest - len(prompt),
            eos_ids=self._eos_ids,
            do_sample=bool(config.do_sample),
            num_sequences=config.num_return_sequences or 1,
            processors=chain,
            num_beams=beams,
            length_penalty=_length_penalty(config, longest - len(prompt)),
            early_stopping=config.early_stopping,
            batch_key=key,
            stop_test=stop_test,
        )

    def _processors(
        self,
        model: PreTrainedModel,
        config: GenerationConfig,
        prompt: list[int],
        own_processors: Iterable[Processor],
    ) -> tuple[LogitsProcessorList, str | None]:
        """HuggingFace's processors for this prompt, and the key of their call."""
        if self._shared is not None and not own_processors:
            return self._shared
        chain = model._get_logits_processor(
            config,
            input_ids_seq_length=len(prompt),
            encoder_input_ids=torch.tensor([prompt], device=model.device),
            logits_processor=LogitsProcessorList(own_processors),
            device=str(model.device),
            model_kwargs={},
        )
        users = set(map(id, own_processors))
        chain = LogitsProcessorList(Guarded(p) if id(p) in users else p for p in chain)
        key = _batch_key(chain, config.do_sample)
        if key is not None and not own_processors:
            self._shared = chain, key
        return chain, key


def refuse_unsupported_fields(
    config: GenerationConfig, given: GenerationConfig, of_model: GenerationConfig
) -> None:
    """Raise UnsupportedOption for every field that is set and has no effect here.

    A clear refusal is better than an option that is silently ignored. A field that a
    later transformers adds is refused too, until we have looked at it. Fields that
    HuggingFace does not know may stand in the config `of_model`. The error says which
    fields the user has not `given`.
    """
    if (config.num_beams or 1) > 1 and config.do_sample:
        remedy = "leave one of them unset"
        if unset := _set_by_the_model(("num_beams", "do_sample"), config, given):
            said = " and ".join(unset.values())
            remedy = (
                f"the model's own generation config says {said}; say "
                f"GenerationConfig(num_beams={config.num_beams}, do_sample=False), or "
                "GenerationConfig(num_beams=1, do_sample=True)"
            )
        raise UnsupportedOption(
            f"num_beams={config.num_beams} with do_sample is not supported: {remedy}"
        )
    fields = vars(GenerationConfig())
    off = GenerationConfig()._get_default_generation_params() | OFF
    known = HONOURED | IRRELEVANT | (vars(of_model).keys() - fields.keys())
    refused = [
        field
        for field, value in vars(config).items()
        if field not in known
        and not field.startswith("_")
        and value is not None
        and value != off.get(field)
        and value is not False
    ]
    unset = _set_by_the_model(refused, config, given)
    faults = [
        f"the model's own generation config says {text}, which is not supported here; "
        f"unset it: model.generation_config.{field} = None"
        for field, text in unset.items()
    ]
    yours = [f"{f}={getattr(config, f)!r}" for f in refused if f not in unset]
    if yours:
        listed = ", ".join(yours)
        faults.append(
            f"generation options not supported here: {listed}; leave them unset"
            + "; for logprobs, pass logprobs=5 beside the config"
            * any(text.startswith(("output_scores", "output_logits")) for text in yours)
        )
    if faults:
        raise UnsupportedOption("; ".join(faults))


def _set_by_the_model(
    fields: Iterable[str], config: GenerationConfig, given: GenerationConfig
) -> dict[str, str]:
    """The fields that the user has left unset, each as "field=value"."""
    unset = [field for field in fields if getattr(given, field, None) is None]
    return {field: f"{field}={getattr(config, field)!r}" for field in unset}


def _check_values(config: GenerationConfig) -> None:
    """Raise for wrong values that HuggingFace accepts: they would do harm later."""
    for name in ("max_length", "max_new_tokens", "num_beams", "num_return_sequences"):
        if (value := getattr(config, name)) is not None:
            require_counts(**{name: value})
    penalty = config.length_penalty
    if not isinstance(penalty, Real | None):
        raise TypeError(f"length_penalty must be a number, got {penalty!r:.60}")
    eos = config.eos_token_id
    eos_ids = eos if isinstance(eos, list) else [eos]
    if any(isinstance(eos_id, str) for eos_id in eos_ids):
        raise TypeError(
            f"eos_token_id must be a token id or a list of them, got {eos!r}; pass "
            "tokenizer.eos_token_id"
        )


def _length_penalty(config: GenerationConfig, longest: int) -> float:
    """The penalty as a float; ValueError if it overflows for `longest` tokens."""
    penalty = config.length_penalty
    if (config.num_beams or 1) == 1 or penalty is None:
        return penalty
    try:
        float(longest) ** float(penalty)
    except OverflowError:
        raise ValueError(
            f"length_penalty={penalty} is too large for texts of {longest} tokens"
        ) from None
    return float(penalty)


def _refuse_padding(config: GenerationConfig, prompt: list[int]) -> None:
    """Raise ValueError for a padded prompt: HuggingFace hides pads, and we read them.

    A single pad may be text. So may pads inside a prompt, and a pad token that has
    another meaning, too.
    """
    eos = config.eos_token_id
    pad = config.pad_token_id
    others = {config.bos_token_id, *(eos if isinstance(eos, list) else [eos])}
    if pad not in others and [pad, pad] in (prompt[:2], prompt[-2:]):
        raise ValueError(
            f"the prompt {prompt!r:.60} begins or ends with pad tokens ({pad}); "
            "prompts need no padding here: pass tokenizer(texts).input_ids"
        )


def _batch_key(chain: LogitsProcessorList, do_sample: bool | None) -> str | None:
    if not all(type(processor) in HISTORY_FREE for processor in chain):
        return None

    def plain(value: Any) -> Any:  # a long tensor's repr is shortened, and so ambiguous
        return value.tolist() if isinstance(value, torch.Tensor) else value

    settings = [
        (type(processor).__name__, {k: plain(v) for k, v in vars(processor).items()})
        for processor in chain
    ]
    # The same object for all: a step compares the keys of all requests.
    return intern(repr((bool(do_sample), settings)))
