"""load(): the pocket model, folders, names, and what is said when there is nothing."""

import io
import json
import os
import shutil
from codecs import BOM_UTF8

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    GenerationConfig,
    PreTrainedModel,
    Qwen3ForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
    ViTConfig,
    ViTForImageClassification,
)

import minipaged as mp
from helpers.thorough import all_or
from helpers.tiny_models import tiny_model
from minipaged.lab.tour.reference import huggingface_generate
from minipaged.model.load import POCKET, load_tokenizer


@pytest.fixture(scope="module")
def pocket():
    return mp.load("pocket", device="cpu")


def test_the_pocket_model_is_a_plain_transformers_model(pocket):
    model, tokenizer = pocket
    assert isinstance(model, PreTrainedModel)
    assert type(model).__module__.startswith("transformers.")
    assert model.dtype == torch.float32 and not model.training
    assert tokenizer.decode(tokenizer("Hallo Welt").input_ids) == "Hallo Welt"


def test_other_dtypes():
    model, _ = mp.load("pocket", dtype=torch.bfloat16, device="cpu")
    assert model.dtype == torch.bfloat16


def test_a_folder_is_loaded_and_generates(tmp_path, pocket):
    tiny_model("llama").save_pretrained(tmp_path)
    pocket[1].save_pretrained(tmp_path)
    model, _ = mp.load(tmp_path, device="cpu")
    paged = mp.PagedModel(model, num_blocks=16, block_size=4)
    config = GenerationConfig(max_new_tokens=8)
    ours = mp.generate(paged, [[5, 6, 7]], config)[0].sequences
    assert ours == huggingface_generate(model, [[5, 6, 7]], config)[0]


def test_the_environment_chooses_the_model_of_the_notebooks(monkeypatch, tmp_path):
    monkeypatch.delenv("MINIPAGED_MODEL", raising=False)
    assert mp.load(device="cpu")[0].config.name_or_path == str(POCKET)
    monkeypatch.setenv("MINIPAGED_MODEL", str(tmp_path / "nothing"))
    with pytest.raises(FileNotFoundError, match="nothing"):
        mp.load()
    assert mp.load("pocket", device="cpu")[0].config.name_or_path == str(POCKET)


@pytest.fixture
def folder(tmp_path):
    """The pocket model, in a folder where it can be damaged."""
    folder = tmp_path / "model"
    folder.mkdir()
    for file in POCKET.iterdir():
        if file.is_file():
            shutil.copy(file, folder)
    return folder


def edit(path, **fields):
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def emptied(folder):
    for file in folder.iterdir():
        file.unlink()


def replaced_by_a_file(folder):
    shutil.rmtree(folder)
    folder.write_text("not a folder")


def without_weights(folder):
    (folder / "model.safetensors").unlink()


def without_tokenizer(folder):
    for file in folder.glob("tokenizer*"):
        file.unlink()


def with_nothing_but_the_tokenizers_options(folder):
    (folder / "tokenizer.json").unlink()


def with_garbage_as(name):
    return lambda folder: (folder / name).write_bytes(b"\xffgarbage" * 1000)


def truncated(folder):
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:100_000])


def with_a_pointer_as_weights(folder):
    """What a clone without git-lfs leaves."""
    text = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"
    (folder / "model.safetensors").write_text(text)


def with_a_pickle_as_weights(folder):
    without_weights(folder)
    (folder / "pytorch_model.bin").write_bytes(b"garbage" * 1000)


def without_a_shard(folder):
    without_weights(folder)
    index = {
        "metadata": {},
        "weight_map": {"lm_head.weight": "model-00001.safetensors"},
    }
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def without_a_layer(folder):
    file = folder / "model.safetensors"
    weights = {k: v for k, v in load_file(file).items() if "layers.2." not in k}
    save_file(weights, file, metadata={"format": "pt"})


def with_a_larger_vocabulary(folder):
    edit(folder / "config.json", vocab_size=1500)


def saved(model):
    def save(folder):
        without_weights(folder)
        model.save_pretrained(folder)

    return save


def with_weights_of(dtype, part=""):
    def change(folder):
        file = folder / "model.safetensors"
        weights = {
            k: v.to(dtype) if part in k else v for k, v in load_file(file).items()
        }
        save_file(weights, file, metadata={"format": "pt"})

    return change


def with_a_scale_beside_a_weight(folder):
    file = folder / "model.safetensors"
    extra = {"model.layers.0.mlp.up_proj.weight_scale_inv": torch.ones(1)}
    save_file(load_file(file) | extra, file, metadata={"format": "pt"})


def quantised(method, **fields):
    fields = {"quant_method": method, "bits": 4, "group_size": 128, **fields}
    return lambda folder: edit(folder / "config.json", quantization_config=fields)


def with_an_adapter_alone(folder, **fields):
    emptied(folder)
    fields = {"peft_type": "LORA", "base_model_name_or_path": "some/base", **fields}
    (folder / "adapter_config.json").write_text(json.dumps(fields))


def with_gguf(folder):
    (folder / "model.safetensors").rename(folder / "model-q4.gguf")


def with_gguf_alone(folder):
    emptied(folder)
    (folder / "model-q4.gguf").touch()


def with_a_mark_in_front(folder):
    file = folder / "config.json"
    file.write_bytes(BOM_UTF8 + file.read_bytes())


def with_generation_config(text):
    return lambda folder: (folder / "generation_config.json").write_bytes(text)


SMALL = {"num_hidden_layers": 1, "hidden_size": 16, "num_attention_heads": 2}
T5 = T5ForConditionalGeneration(
    T5Config(d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2, vocab_size=1024)
)
BART = BartForConditionalGeneration(
    BartConfig(
        d_model=16,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        vocab_size=1024,
    )
)
VIT = ViTForImageClassification(
    ViTConfig(**SMALL, intermediate_size=16, image_size=16, patch_size=8)
)

BROKEN = {
    "empty": (emptied, FileNotFoundError, "has no config.json; give a folder"),
    "a file": (replaced_by_a_file, FileNotFoundError, "is a file; give the folder"),
    "no weights": (without_weights, FileNotFoundError, "Error no file named model.saf"),
    "no tokenizer": (without_tokenizer, ValueError, "has a vocabulary of 1, and the"),
    "no tokenizer.json": (
        with_nothing_but_the_tokenizers_options,
        ValueError,
        "put the model's tokenizer.json there",
    ),
    "another tokenizer": (
        lambda folder: edit(folder / "config.json", vocab_size=32000),
        ValueError,
        "has a vocabulary of 1024, and the model of 32000",
    ),
    "garbage as tokenizer": (
        with_garbage_as("tokenizer.json"),
        ValueError,
        "put the model's tokenizer.json there",
    ),
    "garbage as config": (
        with_garbage_as("config.json"),
        ValueError,
        "config.json of the folder .* Fetch the model again",
    ),
    "a config that is no JSON": (
        lambda folder: (folder / "config.json").write_text("no json"),
        ValueError,
        "config.json of the folder .* Fetch the model again",
    ),
    "a list as config": (
        lambda folder: (folder / "config.json").write_text("[1]"),
        ValueError,
        "config.json of the folder .* Fetch the model again",
    ),
    "a config without a type": (
        lambda folder: (folder / "config.json").write_text("{}"),
        ValueError,
        "names no model_type",
    ),
    "a wrong value": (
        lambda folder: edit(folder / "config.json", hidden_size="many"),
        ValueError,
        "expected int, got str .* Fetch the model again",
    ),
    "an unknown type": (
        lambda folder: edit(folder / "config.json", model_type="nonesuch"),
        ValueError,
        "'nonesuch', which transformers .* a newer transformers may know it",
    ),
    "garbage as weights": (
        with_garbage_as("model.safetensors"),
        ValueError,
        "is the download complete",
    ),
    "truncated weights": (truncated, ValueError, "is the download complete"),
    "a pointer": (with_a_pointer_as_weights, ValueError, "is the download complete"),
    "a pickle": (
        with_a_pickle_as_weights,
        ValueError,
        r"\(UnpicklingError: Weights only load failed\); is the download complete",
    ),
    "a shard is missing": (without_a_shard, FileNotFoundError, "Fetch the model again"),
    "a layer is missing": (
        without_a_layer,
        ValueError,
        r"lacks 11 of the model's weights, .* \(model.layers.2.* random numbers",
    ),
    "another shape": (
        with_a_larger_vocabulary,
        ValueError,
        r"lacks 1 of the model's weights, .* \(model.embed_tokens.weight",
    ),
    "an adapter": (
        with_an_adapter_alone,
        FileNotFoundError,
        r"is no model, but an adapter \(LORA\) of 'some/base'; load that, and put",
    ),
    "soft prompts": (
        lambda folder: with_an_adapter_alone(
            folder, peft_type="PROMPT_TUNING", num_virtual_tokens=8
        ),
        FileNotFoundError,
        r"adapter \(PROMPT_TUNING\) .* cannot be served here$",
    ),
    "a damaged adapter": (
        lambda folder: (
            with_an_adapter_alone(folder),
            (folder / "adapter_config.json").write_text("[]"),
        ),
        ValueError,
        "adapter_config.json of the folder .* Fetch the model again",
    ),
    "GPTQ": (
        quantised("gptq"),
        ValueError,
        r"optimum.* quantised \(gptq\), .* install",
    ),
    "AWQ": (quantised("awq"), ValueError, r"gptqmodel.* quantised \(awq\), .* install"),
    "bitsandbytes": (
        quantised("bitsandbytes", load_in_4bit=True),
        ValueError,
        r"pip install -U bitsandbytes.* quantised \(bitsandbytes\)",
    ),
    "bits of another kind": (
        quantised("bitnet"),
        ValueError,
        r"lacks \d+ of the model's weights.* quantised \(bitnet\)",
    ),
    "a quantisation that nobody knows": (
        quantised("nonesuch"),
        ValueError,
        "does not know quant_method 'nonesuch'.* a newer transformers may know it",
    ),
    "GGUF": (with_gguf_alone, FileNotFoundError, "no config.json; it has GGUF: load"),
    "GGUF and a config": (
        with_gguf,
        FileNotFoundError,
        r"gguf_file='model-q4.gguf'\), which needs the library gguf",
    ),
    "whole numbers": (
        with_weights_of(torch.int32),
        ValueError,
        r"weights that are whole numbers, .* \(model.embed_tokens.weight, ",
    ),
    "whole numbers in a layer": (
        with_weights_of(torch.int8, "layers.2.mlp.up_proj"),
        ValueError,
        r"\(model.layers.2.mlp.up_proj.weight, .* no quantization_config",
    ),
    "truth values": (
        with_weights_of(torch.bool, "up_proj"),
        ValueError,
        "weights that are whole numbers, truth values",
    ),
    "complex numbers": (
        with_weights_of(torch.complex64, "up_proj"),
        ValueError,
        "truth values, complex",
    ),
    "scales": (
        with_a_scale_beside_a_weight,
        ValueError,
        r"or scaled \(model.layers.0.mlp.up_proj.weight_scale_inv, ",
    ),
    "a mark in front": (
        with_a_mark_in_front,
        ValueError,
        "Unexpected UTF-8 BOM.* save it as UTF-8, without a mark in front",
    ),
    "a generation config that is no JSON": (
        with_generation_config(b"{no json"),
        ValueError,
        "generation_config.json of the folder .* fetch it again, or delete it",
    ),
    "a generation config of bytes": (
        with_generation_config(b"\xff\xfe"),
        ValueError,
        "generation_config.json of the folder .* fetch it again, or delete it",
    ),
    "a list as generation config": (
        with_generation_config(b"[1]"),
        ValueError,
        "generation_config.json of the folder .* fetch it again, or delete it",
    ),
    "an encoder": (saved(T5), ValueError, "'t5', which has an encoder; give a decoder"),
    "bart": (saved(BART), ValueError, "'bart', which has an encoder"),
    "vision": (saved(VIT), ValueError, "'vit', which continues no text"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_folder_that_cannot_be_loaded_says_what_is_wrong(folder, name):
    damage, error, message = BROKEN[name]
    damage(folder)
    with pytest.raises((FileNotFoundError, ValueError), match=message) as caught:
        mp.load(folder, device="cpu")
    assert type(caught.value) is error
    assert str(folder) in str(caught.value)


def test_what_is_said_of_an_adapter_works_if_it_is_done(folder, pocket):
    peft = pytest.importorskip("peft")
    model, tokenizer = mp.load("pocket", device="cpu")
    options = {"target_modules": ["q_proj", "down_proj"], "task_type": "CAUSAL_LM"}
    torch.manual_seed(0)
    lora = peft.get_peft_model(
        model, peft.LoraConfig(r=16, lora_alpha=128, init_lora_weights=False, **options)
    )
    shutil.rmtree(folder)
    lora.save_pretrained(folder)
    prompt = tokenizer("The capital of France is").input_ids
    config = GenerationConfig(max_new_tokens=8)
    theirs = lora.generate(torch.tensor([prompt]), generation_config=config)
    with pytest.raises(FileNotFoundError) as caught:
        mp.load(folder, device="cpu")
    advice = str(caught.value).split("put the adapter in: ")[1]
    names = {"mp": mp, "peft": peft}
    exec(advice, names)
    paged = mp.PagedModel(names["model"].cpu(), num_blocks=8)
    (ours,) = mp.generate(paged, [prompt], config)
    assert ours.sequences == [theirs[0, len(prompt) :].tolist()]
    (plain,) = mp.generate(mp.PagedModel(pocket[0], 8), [prompt], config)
    assert ours.sequences != plain.sequences  # the adapter matters


def test_without_a_generation_config_the_ids_are_those_of_the_config(folder):
    (folder / "generation_config.json").unlink(missing_ok=True)
    model, _ = mp.load(folder, device="cpu")
    assert model.generation_config.eos_token_id == model.config.eos_token_id


SHAPED = {
    "a slash behind it": lambda folder: f"{folder}/",
    "from where we are": lambda folder: os.path.relpath(folder),
    "a link": lambda folder: linked(folder),
    "from home": lambda folder: f"~/{folder.name}",
    "text": str,
}


def linked(folder):
    link = folder.parent / "link"
    link.symlink_to(folder, target_is_directory=True)
    return link


@pytest.mark.parametrize("name", SHAPED)
def test_a_folder_is_found_however_it_is_said(folder, monkeypatch, name):
    monkeypatch.setenv("HOME", str(folder.parent))
    model, tokenizer = mp.load(SHAPED[name](folder), device="cpu")
    assert tokenizer.decode(tokenizer("Hallo Welt").input_ids) == "Hallo Welt"
    assert model.dtype == torch.float32


def test_weights_in_any_float_become_the_type_that_is_asked_for(folder):
    for dtype in (torch.float64, torch.bfloat16, torch.float16):
        with_weights_of(dtype)(folder)
        edit(folder / "config.json", dtype=str(dtype).split(".")[1])
        model, _ = mp.load(folder, device="cpu")
        assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}


@pytest.mark.parametrize("named", ["nobody/attention", {"": "nobody/attention"}])
@pytest.mark.parametrize("field", ["_attn_implementation", "attn_implementation"])
def test_attention_from_the_hub_is_neither_fetched_nor_run(
    folder, monkeypatch, field, named
):
    def fetched(*args, **options):
        raise AssertionError("code was fetched from the hub")

    hub_kernels = "transformers.integrations.hub_kernels"
    monkeypatch.setattr(f"{hub_kernels}.load_and_register_attn_kernel", fetched)
    monkeypatch.setattr(f"{hub_kernels}.get_kernel", fetched, raising=False)
    edit(folder / "config.json", **{field: named})
    model, _ = mp.load(folder, device="cpu")
    assert model.config._attn_implementation == "sdpa"


def test_ways_to_compute_that_are_not_here_are_not_asked_for(folder):
    """A model that was saved where there was FlashAttention, for instance."""
    said = {"experts_implementation": "nobody/experts"}
    edit(folder / "config.json", attn_implementation="flash_attention_2", **said)
    model, _ = mp.load(folder, device="cpu")
    assert model.config._attn_implementation == "sdpa"
    edit(folder / "config.json", attn_implementation="eager")
    model, _ = mp.load(folder, device="cpu")
    assert model.config._attn_implementation == "eager"


def test_a_model_without_room_in_memory_says_so(monkeypatch):
    def full(*args, **options):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")

    monkeypatch.setattr(PreTrainedModel, "to", full)
    with pytest.raises(MemoryError, match=r"no room in memory; dtype=torch.bfloat16"):
        mp.load("pocket", device="cpu")


def test_a_pickle_is_not_advised_to_be_run(folder):
    """PyTorch says how to switch its guard off; that is no advice for a lesson."""
    with_a_pickle_as_weights(folder)
    with pytest.raises(ValueError) as caught:
        mp.load(folder, device="cpu")
    assert "weights_only" not in str(caught.value)


CODE = "import pathlib; pathlib.Path({!r}).touch()\nclass C: pass\n"


@pytest.fixture(params=["y\ny\ny\n", "", None], ids=["yes", "nothing", "closed"])
def with_code(request, folder, monkeypatch):
    """A folder with Python code that leaves a mark, and somebody at the terminal."""
    stdin = io.StringIO(request.param or "")
    if request.param is None:
        stdin.close()
    monkeypatch.setattr("sys.stdin", stdin)
    mark = folder / "mark"
    (folder / "custom_generate").mkdir()
    for name in ("code.py", "custom_generate/generate.py"):
        (folder / name).write_text(CODE.format(str(mark)))
    return folder


def assert_nothing_ran_nor_asked(folder, capsys):
    assert not (folder / "mark").exists()
    assert capsys.readouterr().out == ""


AUTO_MAP = {"AutoConfig": "code.C", "AutoModelForCausalLM": "code.C"}


def test_an_unknown_type_with_code_is_refused_and_nothing_is_run(with_code, capsys):
    edit(with_code / "config.json", model_type="foreign", auto_map=AUTO_MAP)
    with pytest.raises(ValueError, match=r"auto_map\), which mp.load never runs"):
        mp.load(with_code, device="cpu")
    assert_nothing_ran_nor_asked(with_code, capsys)


def test_a_known_type_with_code_is_loaded_as_the_known_type(with_code, capsys):
    edit(with_code / "config.json", auto_map=AUTO_MAP)
    options = {"auto_map": {"AutoTokenizer": ["code.C", None]}}
    edit(with_code / "tokenizer_config.json", **options)
    model, tokenizer = mp.load(with_code, device="cpu")
    assert type(model) is Qwen3ForCausalLM
    assert tokenizer.decode(tokenizer("Hallo Welt").input_ids) == "Hallo Welt"
    assert_nothing_ran_nor_asked(with_code, capsys)


def test_a_tokenizer_that_is_code_is_refused_and_not_run(with_code, capsys):
    """A type without a tokenizer class of its own: here transformers would ask."""
    edit(with_code / "config.json", model_type="arcee")
    options = {"auto_map": {"AutoTokenizer": ["code.C", "code.C"]}}
    edit(with_code / "tokenizer_config.json", **options, tokenizer_class="C")
    with pytest.raises(ValueError, match=r"the tokenizer of .*tokenizer.json there"):
        mp.load(with_code, device="cpu")
    assert_nothing_ran_nor_asked(with_code, capsys)


NONSENSE = {
    "a number": ({"name": 5}, TypeError, "name must be a folder or an id on the hub"),
    "a list": ({"name": ["pocket"]}, TypeError, r"on the hub, got \['pocket'\]"),
    "a type as text": ({"dtype": "float32"}, TypeError, "torch.float32, got 'float32'"),
    "whole numbers": ({"dtype": torch.int64}, TypeError, "float32, got torch.int64"),
    "no such device": ({"device": "gpu"}, ValueError, "the device 'gpu' cannot"),
    "too few devices": ({"device": "cuda:99"}, ValueError, "the device 'cuda:99' can"),
    "a float as device": ({"device": 1.5}, ValueError, "the device 1.5 cannot"),
}


@pytest.mark.parametrize("name", NONSENSE)
def test_arguments_that_make_no_sense_are_refused_before_anything_is_read(
    name, monkeypatch
):
    arguments, error, message = NONSENSE[name]
    monkeypatch.setattr("minipaged.model.load.POCKET", "/no/such/folder")
    with pytest.raises(error, match=message):
        mp.load(**{"name": "pocket", **arguments})


@pytest.mark.parametrize("name", ["./no/such/folder", "nobody/no-such-model"])
def test_an_unknown_name_says_what_would_work(name, monkeypatch):
    # The environment variable would come too late: it is read at import.
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(FileNotFoundError, match='"pocket" always works'):
        mp.load(name)


QUESTIONS = [
    "What is 23+45?",
    "What is the capital of France?",
    "Translate to German: the red house",
    "Tell me a long story about a fox.",
    "Tell me a short story about a bear.",
]


def chat(tokenizer, question):
    messages = [
        {"role": "system", "content": "You are a helpful assistant."},
        {"role": "user", "content": question},
    ]
    text = tokenizer.apply_chat_template(
        messages, add_generation_prompt=True, tokenize=False
    )
    return tokenizer(text, add_special_tokens=False).input_ids


@pytest.mark.parametrize("block_size", all_or([1, 16], [16]))
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"do_sample": True, "temperature": 1.2},
        {"do_sample": True, "num_return_sequences": 4},
        {"repetition_penalty": 1.2},
    ],
    ids=["greedy", "sampling", "four samples", "penalty"],
)
def test_the_pocket_model_writes_what_it_writes_through_huggingface(
    pocket, block_size, options
):
    model, tokenizer = pocket
    paged = mp.PagedModel(model, num_blocks=4096 // block_size, block_size=block_size)
    for tensor in (*paged.cache.keys, *paged.cache.values):
        tensor.fill_(float("nan"))
    prompts = [chat(tokenizer, question) for question in QUESTIONS]
    config = GenerationConfig(max_new_tokens=48, **options)
    theirs = huggingface_generate(model, prompts, config, seed=7)
    for chunk in (None, 9):
        ours = mp.generate(paged, prompts, config, seed=7, max_prompt_tokens=chunk)
        assert [out.sequences for out in ours] == theirs
        assert paged.pool.num_free == paged.pool.num_blocks
    if not options:
        assert tokenizer.decode(theirs[0][0]).startswith("68")
        assert ours[0].finish_reason == "stop"


@pytest.mark.parametrize("index", ["{", "[]", "{}", '{"weight_map": 5}'])
def test_a_broken_index_is_named(folder, index):
    (folder / "model.safetensors.index.json").write_text(index)
    with pytest.raises(ValueError, match=r"index\.json .* cannot be used"):
        mp.load(folder)


@pytest.mark.parametrize("name", ["pocket", "pocket-draft", POCKET])
def test_the_tokenizer_alone_is_that_of_the_model(name):
    alone = load_tokenizer(name)
    assert alone.get_vocab() == mp.load("pocket", device="cpu")[1].get_vocab()


def test_a_tokenizer_that_is_not_there_is_told_as_of_load():
    with pytest.raises(FileNotFoundError, match="is no folder"):
        load_tokenizer("/no/such/model")
