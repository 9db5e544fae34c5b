"""The shipped pocket model: loads plainly, speaks its format, earns its card's scores.

The questions asked here are new ones (another seed than the card's), written by the
grammar that also wrote the training corpus; the last tests show that this grammar
keeps the two apart.
"""

import json
import re
from pathlib import Path
from random import Random

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from helpers.thorough import all_or
from tools.pocket import grammar
from tools.pocket import scores as scoring
from tools.pocket import train as training

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "minipaged" / "model" / "pocket"


MESSAGES = [
    {"role": "system", "content": "You are a helpful assistant."},
    {"role": "user", "content": "What is 2+2?"},
    {"role": "assistant", "content": "4"},
    {"role": "user", "content": "What is the capital of France?"},
]


@pytest.fixture(scope="module")
def model():
    return AutoModelForCausalLM.from_pretrained(FOLDER).eval()


@pytest.fixture(scope="module")
def tokenizer():
    return AutoTokenizer.from_pretrained(FOLDER)


@pytest.fixture(scope="module")
def scores():
    return json.loads((FOLDER / "scores.json").read_text(encoding="utf-8"))


# --- the folder ---------------------------------------------------------------------


def test_is_a_small_float32_qwen3_with_grouped_query_attention(model):
    config = model.config
    assert type(model).__name__ == "Qwen3ForCausalLM"
    assert model.dtype == torch.float32
    assert config.num_attention_heads > config.num_key_value_heads > 1
    assert config.tie_word_embeddings
    assert config.max_position_embeddings == 2048
    assert not config.use_sliding_window
    assert set(config.layer_types) == {"full_attention"}


def test_weights_are_at_most_8_megabytes():
    assert (FOLDER / "model.safetensors").stat().st_size <= 8_000_000


def test_generation_config_is_greedy_and_names_the_special_tokens(model, tokenizer):
    saved = json.loads((FOLDER / "generation_config.json").read_text(encoding="utf-8"))
    saved.pop("transformers_version")
    assert saved == {"eos_token_id": 1, "pad_token_id": 0}
    assert tokenizer.convert_ids_to_tokens([0, 1]) == ["<|pad|>", "<|end|>"]
    assert model.config.eos_token_id == tokenizer.eos_token_id == 1


def test_no_file_names_a_path_of_the_machine_that_made_it():
    for file in FOLDER.glob("*.json"):
        if file.name != "tokenizer.json":  # whose vocabulary holds "/" of its own
            assert '"/' not in file.read_text(encoding="utf-8"), file.name
    config = json.loads((FOLDER / "config.json").read_text(encoding="utf-8"))
    assert not config.get("_name_or_path")


# --- tokenizer and chat format ------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "What is 23+45?",
        "  two  spaces, a tab\tand\r\n\nlines \n",
        "Die Königin läuft über die Straße.",
        "東京 مرحبا привет 👩‍👩‍👧 e\u0301 \u00a0\u200b\ufeff\x00",
        "don't I'll 'quoted' \"text\" , . ! ?",
        "".join(map(chr, range(1, 1200))),
    ],
)
def test_tokenizer_is_lossless(tokenizer, text):
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def test_every_digit_is_its_own_token(tokenizer):
    tokens = tokenizer.tokenize("x 2048 999,7+10000=")
    assert [token for token in tokens if re.search(r"\d", token)] == list(
        "2048999710000"
    )


def test_vocabulary_fits_the_embedding(tokenizer, model):
    assert len(tokenizer) == model.config.vocab_size == 1024
    assert set(tokenizer.all_special_ids) == {0, 1, 2, 3, 4}


def test_chat_template_writes_one_line_per_conversation(tokenizer):
    text = tokenizer.apply_chat_template(
        MESSAGES, tokenize=False, add_generation_prompt=True
    )
    assert text == (
        "<|system|>You are a helpful assistant.<|end|><|user|>What is 2+2?<|end|>"
        "<|assistant|>4<|end|><|user|>What is the capital of France?<|end|>"
        "<|assistant|>"
    )


def test_chat_template_gives_the_training_format(tokenizer):
    for seed in range(20):
        _, messages = grammar.chat(Random(seed), prompt_length=40, length=100)
        trained = "".join(text for text, _ in grammar.chat_pieces(messages))
        assert tokenizer.apply_chat_template(messages, tokenize=False) == trained


def test_tokens_of_pieces_are_the_tokens_of_the_whole(tokenizer):
    # The corpus is tokenised piece by piece, a prompt as a whole: they must agree.
    rng = Random(3)
    for _ in range(100):
        pieces = [text for text, _ in grammar.training_document(rng)]
        apart = [token for text in pieces for token in tokenizer(text)["input_ids"]]
        assert tokenizer("".join(pieces), verbose=False)["input_ids"] == apart


# --- scores -------------------------------------------------------------------------


def test_scores_meet_every_bar(scores):
    assert set(scores["skills"]) == set(grammar.SKILLS)
    for skill, item in scores["skills"].items():
        assert item["asked"] >= 300
        assert item["bar"] == scoring.BARS[skill] >= 0.9
        assert item["right"] / item["asked"] >= item["bar"], skill
    assert scores["stories"]["ended"] >= 0.95
    assert scores["stories"]["std_over_mean"] >= 0.4


def test_model_card_says_what_the_scores_say(scores):
    card = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert card == scoring.model_card(scores)


def test_model_card_tells_when_a_bar_is_missed(scores):
    worse = json.loads(json.dumps(scores))
    worse["skills"]["sums"].update(right=1, exact_match=0.002, met=False)
    assert "Bars missed: sums" in scoring.model_card(worse)


@pytest.mark.parametrize("skill", all_or(grammar.SKILLS, [*grammar.SKILLS][::2]))
def test_answers_new_held_out_questions(model, tokenizer, skill):
    count = 10 if skill == "long" else 20  # long prompts cost a CPU more
    questions = scoring.held_out_questions(tokenizer, skill, count, seed=1)
    result = scoring.score_skill(model, tokenizer, questions)
    assert result["right"] >= 0.9 * count, result["some_mistakes"]


def test_answer_depends_on_what_this_chat_was_told(model, tokenizer):
    for name in ("Anna", "Ben", "Clara"):
        system = f"You are a helpful assistant. The user's name is {name}. Be polite."
        messages = [grammar.message("system", system)]
        messages.append(grammar.message("user", "What is my name?"))
        prompt = tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=True
        )
        [output] = scoring.complete(model, tokenizer, [prompt], 16, do_sample=False)
        assert tokenizer.decode(output) == f"Your name is {name}.<|end|>"


def test_sampled_stories_end_and_differ_in_length(model, tokenizer):
    prompts = ["Once upon a time"] * 8
    torch.manual_seed(0)
    outputs = scoring.complete(model, tokenizer, prompts, 400, do_sample=True)
    assert all(output[-1] == tokenizer.eos_token_id for output in outputs)
    lengths = [len(output) for output in outputs]
    assert max(lengths) >= 2 * min(lengths)


# --- training data ------------------------------------------------------------------


@pytest.fixture(scope="module")
def context_lines():
    """Every line that training shows a system or a user saying, of 4,000 documents."""
    rng = Random(2)
    documents = (grammar.training_document(rng) for _ in range(4000))
    texts = [text for pieces in documents for text, kind in pieces if kind == "context"]
    return [line for text in texts for line in text.removesuffix("<|end|>").split("\n")]


def plain(sentence):
    """A sentence without the marks that hurried users leave out."""
    return sentence.strip().rstrip("?.!").lower()


@pytest.fixture(scope="module")
def context_sentences(context_lines):
    parts = (re.split(r"(?<=[.?!]) | and (?=I |my )", line) for line in context_lines)
    return {plain(part) for line in parts for part in line}


def test_training_never_adds_a_held_out_pair(context_lines):
    pattern = re.compile(r"(\d+) ?(?:\+|plus|and|to) ?(\d+)")
    found = [
        tuple(map(int, pair))
        for line in context_lines
        for pair in pattern.findall(line)
    ]
    assert len(found) > 1000
    assert not any(grammar.sum_is_held_out(a, b) for a, b in found)


def test_training_never_asks_a_held_out_phrasing_of_a_fact(context_sentences):
    asked = {True: set(), False: set()}
    for name, kind in grammar.FACT_KINDS.items():
        for x in kind.facts:
            for number, phrasing in enumerate(kind.questions):
                held_out = grammar.is_held_out("fact", name, x, number)
                asked[held_out].add(plain(phrasing.format(x=x)))
    assert len(asked[True]) > 50 and len(asked[False] & context_sentences) > 500
    assert not asked[True] & context_sentences


def test_training_never_tells_a_held_out_sentence(context_sentences):
    told = {True: set(), False: set()}
    for attribute in grammar.ATTRIBUTES.values():
        for pattern in attribute.by_system + attribute.by_user:
            for person in grammar.NAMES if "{p}" in pattern else [""]:
                for value in attribute.values:
                    sentence = pattern.format(p=person, v=value)
                    held_out = grammar.is_held_out("told", sentence)
                    told[held_out].add(plain(sentence))
    # Without its capitals a sentence of the one kind may look like one of the other.
    reserved = told[True] - told[False]
    assert len(reserved) > 1000 and len(told[False] & context_sentences) > 500
    assert not reserved & context_sentences


def test_training_never_translates_a_held_out_phrase(context_lines):
    noun = "|".join(grammar.NOUNS)
    adjective = "|".join(grammar.ADJECTIVES)
    phrase = re.compile(rf"\b(?:the|an?) ({adjective}) ({noun})\b")
    sentence = re.compile(rf"(?:the|an?) (?:(?:{adjective}) )?({noun}) (.+)")
    asked = [re.escape(text).replace(r"\{x\}", "(.*)") for text in grammar.TRANSLATE]
    english = []
    for line in context_lines:
        for pattern in [*asked, r"^(.*?) (?:=>|->|=)(?: |$)"]:
            english += re.findall(pattern, line)
    pairs = [pair for text in english for pair in phrase.findall(text)]
    clauses = [
        match.groups() for text in english if (match := sentence.fullmatch(text))
    ]
    assert len(pairs) > 1000 and len(clauses) > 500
    assert not any(grammar.is_held_out("phrase", n, a) for a, n in pairs)
    assert not any(grammar.is_held_out("sentence", *clause) for clause in clauses)


def test_a_packed_document_sees_nothing_before_it(model, tokenizer):
    rng = Random(4)
    documents = []
    while len(documents) < 6:
        text = "".join(text for text, _ in grammar.training_document(rng))
        tokens = tokenizer(text, verbose=False)["input_ids"]
        if len(tokens) < 100:
            documents.append((tokens, [1] * len(tokens)))
    ids, kinds, positions = map(torch.from_numpy, training.pack(documents, 512))
    assert len(ids) == 1 and kinds.sum() == sum(len(tokens) for tokens, _ in documents)
    start = len(documents[0][0])
    stop = start + len(documents[1][0])
    with torch.no_grad():
        packed = model(ids.long(), position_ids=positions.long(), use_cache=False)
        alone = model(ids[:, start:stop].long())
    # float32, six heads of 32 over four layers: rounding stays far below 1e-3
    assert torch.allclose(packed.logits[:, start:stop], alone.logits, atol=1e-3)
