"""Pieces of text: together they are the tokenizer's text of all the tokens."""

import json
import random
from functools import cache

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models
from transformers import ByT5Tokenizer, CTRLTokenizer, PreTrainedTokenizerFast

import minipaged as mp
from minipaged.decoding.text_pieces import Decoder, TextPieces

BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
SAYINGS = "▁ ▁a ▁world b . ! ' ▁' ▁. n't 's ▁n 't é 😀 � ▁▁ 中 t".split(" ")
SPECIAL = ["<unk>", "</s>", "<|sys|>"]


def tokenizer_of(model, decoder, **options):
    raw = Tokenizer(model)
    raw.decoder = decoder
    raw.add_special_tokens(SPECIAL)
    raw.add_tokens([AddedToken("<tool>", normalized=False)])  # added, not special
    return PreTrainedTokenizerFast(
        tokenizer_object=raw, unk_token="<unk>", eos_token="</s>", **options
    )


def numbered(names):
    return {name: number for number, name in enumerate(dict.fromkeys(names))}


def llama_2():
    """SentencePiece's bytes, and a space at the start that is not said."""
    return tokenizer_of(
        models.BPE(
            numbered(SPECIAL + BYTES + SAYINGS),
            [],
            byte_fallback=True,
            unk_token="<unk>",
        ),
        decoders.Sequence(
            [
                decoders.Replace("▁", " "),
                decoders.ByteFallback(),
                decoders.Fuse(),
                decoders.Strip(" ", 1, 0),
            ]
        ),
    )


def gemma():
    """The same without that space."""
    model = models.BPE(
        numbered(SPECIAL + BYTES + SAYINGS), [], byte_fallback=True, unk_token="<unk>"
    )
    parts = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    return tokenizer_of(model, decoders.Sequence(parts))


def t5():
    model = models.Unigram([(name, 0.0) for name in numbered(SPECIAL + SAYINGS)], 0)
    return tokenizer_of(model, decoders.Metaspace())


def t5_cleaned():
    model = models.Unigram([(name, 0.0) for name in numbered(SPECIAL + SAYINGS)], 0)
    return tokenizer_of(model, decoders.Metaspace(), clean_up_tokenization_spaces=True)


def bert():
    words = "a do n't ' ' s ##s ##ing . , ! sing é ##é 中".split(" ")
    model = models.WordPiece(numbered(SPECIAL + words), unk_token="<unk>")
    return tokenizer_of(
        model, decoders.WordPiece("##"), clean_up_tokenization_spaces=True
    )


def with_endings():
    """Each word's last token says that it is the last."""
    words = "a b</w> c</w> word</w> .</w> é".split(" ")
    model = models.BPE(numbered(SPECIAL + words), [], end_of_word_suffix="</w>")
    return tokenizer_of(model, decoders.BPEDecoder("</w>"))


@cache
def pocket():
    return mp.load("pocket", device="cpu")


def byte_level():
    return pocket()[1]


class Marked(PreTrainedTokenizerFast):
    """Does more than its backend, as CPM's."""

    def _decode(self, *arguments, **options):
        return super()._decode(*arguments, **options).replace(" ", "_")


def marked():
    return Marked(tokenizer_object=pocket()[1].backend_tokenizer)


KINDS = {
    each.__name__: each
    for each in (
        llama_2,
        gemma,
        t5,
        t5_cleaned,
        bert,
        with_endings,
        byte_level,
        marked,
        ByT5Tokenizer,  # written in Python, without a backend; drops lone bytes
    )
}
MAKE = {name: cache(make) for name, make in KINDS.items()}


def pieces_of(tokenizer, tokens):
    pieces = TextPieces(tokenizer)
    return [*map(pieces.add, tokens), pieces.rest()]


def random_tokens(tokenizer, rng):
    """Of all kinds; a few that come often, so that they meet."""
    size = len(tokenizer) + 3  # some models have more rows than tokens
    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        size = len(tokenizer)
    few = [rng.randrange(size) for _ in range(5)] + tokenizer.all_special_ids[:1]
    if isinstance(tokenizer, ByT5Tokenizer) or rng.random() < 0.3:
        few += tokenizer("a é 😀\n", add_special_tokens=False).input_ids
    return [
        rng.choice(few) if rng.random() < 0.7 else rng.randrange(size)
        for _ in range(rng.randrange(1, 30))
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_together_the_pieces_are_the_text(kind):
    tokenizer, rng = MAKE[kind](), random.Random(7)
    for _ in range(200):
        tokens = random_tokens(tokenizer, rng)
        pieces = pieces_of(tokenizer, tokens)
        text = tokenizer.decode(tokens, skip_special_tokens=True)
        assert "".join(pieces) == text, tokenizer.convert_ids_to_tokens(tokens)


@pytest.mark.parametrize("kind", KINDS)
def test_no_piece_but_the_last_ends_in_half_a_letter(kind):
    tokenizer, rng = MAKE[kind](), random.Random(8)
    for _ in range(100):
        *pieces, _ = pieces_of(tokenizer, random_tokens(tokenizer, rng))
        assert not any(piece.endswith("\ufffd") for piece in pieces)


def names(tokenizer, *wanted):
    return tokenizer.convert_tokens_to_ids(list(wanted))


EMOJI = [f"<0x{byte:02X}>" for byte in "😀".encode()]
SAID = {
    "a newline that proves to be no letter": (
        ["b", "<0x0A>", EMOJI[0], "b"],
        ["b", "", "", "\ufffd\ufffdb", ""],
    ),
    "a letter of four bytes": (
        ["b", *EMOJI, "▁world"],
        ["b", "", "", "", "", "😀 world", ""],
    ),
    "half a letter at the end": (["b", *EMOJI[:3]], ["b", "", "", "", "\ufffd" * 3]),
    "half a letter, a special token, the rest": (
        [*EMOJI[:2], "</s>", *EMOJI[2:], "b"],
        ["", "", "", "", "", "😀b", ""],
    ),
    "words": (["▁world", "▁a", "b"], ["world", " a", "b", ""]),
    "an added token": (["▁a", "<tool>", "▁a"], ["a", "<tool>", " a", ""]),
}


@pytest.mark.parametrize("case", SAID)
def test_each_piece_comes_as_soon_as_it_is_certain(case):
    wanted, pieces = SAID[case]
    tokenizer = MAKE["llama_2"]()
    assert pieces_of(tokenizer, names(tokenizer, *wanted)) == pieces


def test_a_space_that_may_be_cleaned_away_waits():
    tokenizer = MAKE["t5_cleaned"]()
    tokens = names(tokenizer, "▁world", "▁n", "'", "t", "▁world", "▁.")
    assert pieces_of(tokenizer, tokens) == ["world", "", "", "n't", " world", "", "."]


def test_a_long_text_is_not_decoded_again_and_again(monkeypatch):
    tokenizer, lengths = MAKE["byte_level"](), []
    decode = Decoder.decode

    def spy(self, tokens):
        lengths.append(len(tokens))
        return decode(self, tokens)

    monkeypatch.setattr(Decoder, "decode", spy)
    pieces = TextPieces(tokenizer)
    for token in tokenizer("Once upon a time there was a small fox. " * 40).input_ids:
        pieces.add(token)
    assert max(lengths) < 10


@pytest.mark.parametrize("nothing", [None, "pocket", Tokenizer(models.BPE())])
def test_what_is_no_tokenizer_of_transformers_is_refused_at_once(nothing):
    with pytest.raises(TypeError, match="tokenizer must be one of transformers"):
        TextPieces(nothing)


def test_a_word_whose_mark_goes_when_it_is_continued(tmp_path):
    """As CTRL's: "un@@" and "der" are "under"."""
    (tmp_path / "merges").write_text("#version: 0.2\n")
    words = {"<unk>": 0, "un@@": 1, "der": 2, "on@@": 3, "e": 4}
    (tmp_path / "vocab").write_text(json.dumps(words))
    tokenizer = CTRLTokenizer(str(tmp_path / "vocab"), str(tmp_path / "merges"))
    for tokens in ([1, 2], [2, 1, 2, 3, 4], [3, 1], [4, 3, 3]):
        pieces = list(TextPieces(tokenizer).of(tokens))
        assert "".join(pieces) == tokenizer.decode(tokens)
