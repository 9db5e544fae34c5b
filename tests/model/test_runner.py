"""Who computes an engine's steps; graphs without a GPU are in helpers.replaying."""

import copy

import numpy as np
import pytest
import torch
from transformers import GenerationConfig, GPT2Config, GPT2LMHeadModel

import minipaged as mp
from helpers.replaying import ReplayingRunner, replayable, replaying
from helpers.serving import PROMPTS, check, config, make
from helpers.thorough import all_or
from helpers.tiny_models import tiny_model
from minipaged.attention.gathered import attend_gathered
from minipaged.lab.tour.reference import huggingface_outputs
from minipaged.memory.block_table import BlockTable
from minipaged.model import graphs, persistent_inputs
from minipaged.model.fixed_inputs import FixedInputs, Size
from minipaged.model.graphs import ROWS, GraphRunner, unwritten_prompts
from minipaged.model.persistent_inputs import StepArrays, to_device
from minipaged.model.runner import Runner, make_runner, why_no_graphs
from minipaged.scheduling.plan import Plan, Work
from minipaged.scheduling.sequence import Sequence

NO_GPU = not torch.cuda.is_available()


@pytest.mark.skipif(not NO_GPU, reason="wants no GPU")
@pytest.mark.parametrize("run", ["graphs", "compiled"])
def test_graphs_without_a_gpu_are_refused_in_words(run):
    paged = mp.PagedModel(tiny_model("qwen3"), 32)
    with pytest.raises(ValueError, match=rf"{run}.* needs a GPU, .*on the cpu.*eager"):
        mp.Engine(paged, run=run)
    with pytest.raises(ValueError, match="run must be"):
        mp.Engine(paged, run="fast")
    assert 'run="eager"' in repr(mp.Engine(paged))


@pytest.mark.parametrize(
    "name", all_or(["qwen3", "gemma2", "gpt2", "gpt_oss"], ["gemma2", "gpt_oss"])
)
@pytest.mark.parametrize("num_requests", [1, ROWS - 1, ROWS, ROWS + 1])
def test_rows_that_are_left_over_change_nothing(name, num_requests):
    """Whatever lies in them: their slots are -1 and their contexts 0.

    All prompts are a step, too: where it has more than 40 tokens, it runs eagerly.
    """
    paged = mp.PagedModel(tiny_model(name), 96, 4, replayable)
    for tensor in (*paged.cache.keys, *paged.cache.values):
        tensor.fill_(torch.nan)
    engine = replaying(mp.Engine(paged, max_sequences=16))
    prompts, own = PROMPTS[:num_requests], config(6)
    for prompt in prompts:
        engine.add(prompt, own)
    check(engine.run(), huggingface_outputs(paged.model, prompts, own))
    assert engine._runner.num_replays == 5 + (sum(map(len, prompts)) <= 40)


def test_prompts_and_answers_share_a_graph():
    """Prompts in parts, and arrivals in the middle; other graphs are never wrong."""
    engine = replaying(make(attention=replayable, max_sequences=8, max_tokens=20))
    runner, sizes = engine._runner, []
    for size, (graph, _) in runner._graphs.items():
        replay = graph.replay

        def noted(size=size, replay=replay):
            sizes.append((size.tokens, size.longest))
            replay()

        graph.replay = noted
    prompts = [PROMPTS[at] for at in (1, 7, 2, 5, 10, 9, 6)]  # 17, 23, 4 ... tokens
    for prompt in prompts[:2]:
        engine.add(prompt, config(9))
    for prompt in prompts[2:]:
        engine.step()
        engine.add(prompt, config(9))
    check(engine.run(), huggingface_outputs(engine.paged.model, prompts, config(9)))
    assert {(40, 40), (16, 16), (8, 1)} <= set(sizes)
    assert len(sizes) == engine.stats.num_steps  # none ran eagerly


def test_as_many_sequences_as_there_may_be_and_a_token_is_left_over():
    engine = replaying(make(attention=replayable, max_sequences=8))
    prompts = [[5], *([7, at] for at in range(8, 15))]
    for prompt in prompts:
        engine.add(prompt, config(3))
    check(engine.run(), huggingface_outputs(engine.paged.model, prompts, config(3)))
    graphs = engine._runner._graphs.items()
    assert [size.tokens for size, own in graphs if own.graph.count] == [16, 8]


def test_what_no_graph_holds_runs_eagerly():
    """More sequences than the largest graph, longer tables, another attention."""
    engine = replaying(make(attention=replayable, max_sequences=8))
    samples = config(5, do_sample=True, num_return_sequences=9)
    engine.add(PROMPTS[0], samples, seed=3)
    right = huggingface_outputs(engine.paged.model, PROMPTS[:1], samples, seed=[3])
    check(engine.run(), right)
    assert engine._runner.num_replays == 1  # the prompt
    engine._runner._longest = 20
    engine.add(PROMPTS[1], config(12))
    right = huggingface_outputs(engine.paged.model, PROMPTS[1:2], config(12))
    check(engine.run(), right)
    assert engine._runner.num_replays == 5  # 17 tokens, and 3 more
    engine.paged.attention = lambda *arguments: attend_gathered(*arguments)
    engine.add(PROMPTS[2], config(12))
    engine.run()
    assert engine._runner.num_replays == 5


def test_eager_steps_take_the_lengths_of_graphs():
    """Kernels are compiled for lengths; another attention is told the true ones."""
    engine = replaying(make(attention=replayable, max_sequences=8))
    runner = engine._runner
    table = BlockTable(runner.paged.pool)
    table.append(3)
    sequence = Sequence([5, 6, 7], table)
    plan = Plan([Work(None, sequence, 2, 3, 1)])
    runner._longest = 2  # so no graph holds it

    def lengths():
        batch, _ = runner.compute(plan)
        return batch.min_context_length, batch.max_context_length

    assert lengths() == (1, runner._width * runner.paged.pool.block_size)
    runner.paged.attention = lambda *arguments: attend_gathered(*arguments)
    assert lengths() == (3, 3)


@pytest.mark.parametrize("forgets", [False, True])
def test_blocks_are_copied_before_a_replay(forgets):
    """Samples and beams, which write to blocks that they share."""
    engine = replaying(make(attention=replayable, max_tokens=40))
    own = [config(8, num_beams=3), config(8, do_sample=True, num_return_sequences=3)]
    prompts = PROMPTS[1:3]
    for prompt, each in zip(prompts, own, strict=True):
        engine.add(prompt, each, seed=2)
    copies = []
    copy = engine.paged.cache.copy

    def noted(pairs):
        copies.extend(pairs)
        if not forgets:
            copy(pairs)

    engine.paged.cache.copy = noted
    right = [
        output
        for prompt, each in zip(prompts, own, strict=True)
        for output in huggingface_outputs(
            engine.paged.model, [prompt], each, seed=[2] if each.do_sample else None
        )
    ]
    found = engine.run()
    assert engine._runner.num_replays == engine.stats.num_steps
    assert copies
    if forgets:
        assert any(
            ours.sequences != theirs.sequences
            for ours, theirs in zip(found, right, strict=True)
        )
    else:
        check(found, right)


def test_a_graph_has_as_many_rows_of_logits_as_there_may_be_sequences():
    """Several of one sequence, too."""
    runner = replaying(make(attention=replayable, max_sequences=16))._runner
    pool = runner.paged.pool
    sequence = Sequence(list(range(20)), BlockTable(pool))
    sequence.table.append(20)

    def size_of(num_logits):
        plan = Plan([Work(None, sequence, 0, 20, num_logits)])
        return runner._size_of(runner.inputs.arrays(plan), None)

    assert size_of(0) == size_of(1) == size_of(16) is not None
    assert size_of(17) is None


def test_with_guesses_there_are_graphs_for_many_logits_of_a_sequence():
    paged = mp.PagedModel(tiny_model("qwen3"), 64, 4, replayable)
    runner = ReplayingRunner(paged, 8, 96, num_guesses=3)
    sequence = Sequence(list(range(20)), BlockTable(paged.pool))
    sequence.table.append(20)

    def size_of(*works):
        works = [Work(None, sequence, *numbers) for numbers in works]
        return runner._size_of(runner.inputs.arrays(Plan(works)), None)

    assert size_of((8, 12, 4)) == Size(8, 8, 1, rows_share=True)
    assert size_of((8, 12, 4), (3, 4, 1)) == Size(8, 8, 1, rows_share=True)
    assert size_of(*[(8, 12, 4)] * 8) == Size(40, 40, 1, rows_share=True)
    assert size_of((3, 4, 1)) == Size(8, 8, 1)
    beside_a_prompt = size_of((0, 5, 1), *[(8, 12, 4)] * 7)
    assert beside_a_prompt == Size(40, 16, 40)
    assert size_of(*[(8, 12, 4)] * 9) == Size(40, 40, 1, rows_share=True)
    assert size_of(*[(8, 12, 4)] * 11) is None  # more than there may be


def test_a_runner_is_made_alike_for_a_draft_model(monkeypatch):
    paged = mp.PagedModel(tiny_model("qwen3"), 32, 4, replayable)
    runner = ReplayingRunner(paged, 8, 32, num_guesses=2)
    draft = mp.PagedModel(tiny_model("qwen3"), 32, 4, replayable)
    alike = runner.like(draft)
    assert type(alike) is Runner and alike.paged is draft  # graphs want a GPU
    monkeypatch.setattr(graphs, "why_no_graphs", lambda paged: None)
    alike = runner.like(draft)
    assert type(alike) is ReplayingRunner and alike.paged is draft
    assert alike._sizes == runner._sizes


def test_weights_that_were_replaced_are_refused_in_a_replay():
    model = tiny_model("llama")
    paged = mp.PagedModel(model, 32, 4, replayable)
    engine = replaying(mp.Engine(paged))
    engine.add([5, 6, 7], GenerationConfig(max_new_tokens=9, min_new_tokens=9))
    engine.step()
    weight = model.lm_head.weight
    try:
        model.lm_head.weight = torch.nn.Parameter(weight.clone())
        with pytest.raises(ValueError, match="wrap it again"):
            engine.step()
    finally:
        model.lm_head.weight = weight


def test_observers_see_the_batch_without_what_is_left_over():
    seen = []

    class Sees(mp.Observer):
        def computed(self, batch, logits):
            lengths = [len(batch.tokens), len(batch.slots), len(batch.block_tables)]
            assert {*lengths, len(batch.query_starts) - 1} == {len(logits)} or not seen
            seen.append((batch.context_lengths.tolist(), batch.tokens.tolist()))

    engine = replaying(make(attention=replayable, observers=[Sees()]))
    streams = [engine.add(prompt, config(4)) for prompt in PROMPTS[:3]]
    engine.run()
    lengths = [len(prompt) for prompt in PROMPTS[:3]]
    assert [own for own, _ in seen[1:]] == [[n + k for n in lengths] for k in (1, 2, 3)]
    chosen = list(zip(*(stream.tokens for stream in streams), strict=True))
    assert [tuple(own) for _, own in seen[1:]] == chosen[:3]


def test_inputs_are_brought_in_one_piece(monkeypatch):
    """To a device that is not the CPU; here it is torch's "meta"."""
    arrays = [torch.arange(6).view(2, 3).numpy(), torch.arange(0).numpy()]
    sent = to_device(arrays, torch.device("meta"))
    assert [list(part.shape) for part in sent] == [[2, 3], [0]]
    assert [part.is_meta for part in sent] == [True, True]


def test_parts_of_the_piece_begin_where_kernels_want_them(monkeypatch):
    """At multiples of 16 bytes: Triton compiles a kernel anew for other places."""
    pieces = []

    def host_memory(size, device):
        pieces.append(torch.full((size,), -1))
        return pieces[-1]

    monkeypatch.setattr(persistent_inputs, "host_memory", host_memory)
    arrays = [np.arange(1, 4), np.arange(4, 5), np.arange(5, 9).reshape(2, 2)]
    to_device(arrays, torch.device("meta"))
    assert pieces[0].tolist() == [1, 2, 3, -1, 4, -1, 5, 6, 7, 8]


@pytest.mark.parametrize("count, length, decoding", [(1, 8, 1), (3, 5, 1), (1, 8, 6)])
def test_unwritten_prompts_write_nothing(count, length, decoding):
    paged = mp.PagedModel(tiny_model("qwen3"), 32, 4, replayable)
    for tensor in (*paged.cache.keys, *paged.cache.values):
        tensor.fill_(7.0)
    nobodies = unwritten_prompts(paged, count, length, decoding)
    logits = paged.forward(nobodies)
    assert len(logits) == count + decoding and logits.isfinite().all()
    for tensor in (*paged.cache.keys, *paged.cache.values):
        assert (tensor == 7.0).all()


@pytest.mark.parametrize("num_sequences, graphs", [(1, 1), (8, 1), (9, 2), (24, 3)])
def test_there_is_a_graph_for_every_eight_rows(num_sequences, graphs):
    paged = mp.PagedModel(tiny_model("qwen3"), 32, 4, replayable)
    runner = ReplayingRunner(paged, num_sequences)
    decoding = [size for size in runner._graphs if size.decodes]
    assert decoding == [Size(ROWS * n, ROWS * n, 1) for n in range(graphs, 0, -1)]
    rows = ROWS * (graphs + 1)
    prompts = set(runner._graphs) - set(decoding)
    assert prompts == {Size(16, rows, 16), Size(40, rows, 40)}
    assert list(runner._graphs) == sorted(runner._graphs, reverse=True)
    runner.close()
    runner.close()


@pytest.mark.parametrize(
    "max_tokens, num_blocks, largest",
    [(8192, 32, 40), (17, 32, 40), (16, 32, 16), (8192, 4, 16), (8192, 5, 40)],
)
def test_no_graph_is_larger_than_a_step_can_be(max_tokens, num_blocks, largest):
    paged = mp.PagedModel(tiny_model("qwen3"), num_blocks, 4, replayable)
    runner = ReplayingRunner(paged, 8, max_tokens)
    assert max(size.tokens for size in runner._prompts) == largest
    longest = max(len(batch.tokens) for batch in runner._eager_prompts())
    assert longest <= 1 + 4 * num_blocks


def test_unwritten_prompts_stay_within_the_model_s_positions():
    """100 of them are no whole number of blocks."""
    sizes = {"vocab_size": 64, "n_embd": 32, "n_layer": 1, "n_head": 2}
    model = GPT2LMHeadModel(GPT2Config(**sizes, n_positions=100)).eval()
    runner = ReplayingRunner(mp.PagedModel(model, 80, 16, replayable), 8)
    assert max(batch.positions.max() for batch in runner._eager_prompts()) == 99
    runner._load_kernels_of_prompts()
    for stop, is_replayed in ((100, True), (101, False)):
        sequence = Sequence([5] * stop, BlockTable(runner.paged.pool))
        sequence.table.append(stop)
        arrays = runner.inputs.arrays(Plan([Work(None, sequence, stop - 1, stop, 1)]))
        assert (runner._size_of(arrays, None) is not None) == is_replayed


def step_of(table):
    """A step of one token, with this table."""
    one = np.array([5])
    return StepArrays(
        *(one, one, one), np.array([table]), np.array([9]), np.array([0, 1]),
        *(one * 0, one[:0], one[:0]), 1, 9, 9,
    )  # fmt: skip


@pytest.mark.parametrize("size", [Size(8, 8, 1), Size(16, 16, 16)])
def test_only_tables_of_sequences_that_are_there_are_sent(size):
    fixed = FixedInputs([size], width=100, num_logits=8, device=torch.device("cpu"))
    fixed._tables.fill_(-7)
    fixed.send(size, step_of([0, 1, 2]))
    assert fixed._tables[0, :3].tolist() == [0, 1, 2]
    assert (fixed._tables[0, 3:] == -7).all() and (fixed._tables[1:] == -7).all()


def test_tables_are_sent_when_they_change():
    size = Size(8, 8, 1)
    fixed = FixedInputs([size], width=9, num_logits=8, device=torch.device("cpu"))
    for table in ([1, 2], [1, 2, 3], [1, 2, 3], [1, 2, 4], [1, 2]):
        fixed.send(size, step_of(table))
        assert fixed._tables[0, : len(table)].tolist() == table
    fixed._tables.fill_(-7)
    fixed.send(size, step_of([1, 2]))
    assert fixed._tables[0, 0] == -7  # the same ones are not sent again


@pytest.mark.parametrize("is_copied", [False, True])
@pytest.mark.parametrize("number", [1, 2])
def test_tables_are_sent_after_an_interruption(monkeypatch, number, is_copied):
    """Ctrl-C comes before the numbers are copied, or just after; or the tables."""
    size = Size(8, 8, 1)
    fixed = FixedInputs([size], width=9, num_logits=8, device=torch.device("cpu"))
    fixed.send(size, step_of([1, 2]))
    calls = []

    def interrupted(own, *arguments, copy=torch.Tensor.copy_, **options):
        calls.append(own)
        is_now = len(calls) == number
        if is_copied or not is_now:
            copy(own, *arguments, **options)
        if is_now:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(torch.Tensor, "copy_", interrupted)
        with pytest.raises(KeyboardInterrupt):
            fixed.send(size, step_of([3, 4]))
    for table in ([1, 2], [3, 4]):
        fixed.send(size, step_of(table))
        assert fixed._tables[0, :2].tolist() == table


def test_inputs_made_in_inference_mode_are_filled_outside_of_it():
    size, device = Size(8, 8, 1), torch.device("cpu")
    with torch.inference_mode():
        fixed = FixedInputs([size], width=10, num_logits=8, device=device)
    fixed.send(size)
    assert (fixed.batch(size, 4).slots == -1).all()


@pytest.mark.parametrize("kind", ["hook", "forward"])
def test_code_of_the_users_is_not_put_into_graphs(monkeypatch, kind):
    """A graph would repeat what it once did, whatever the user sets later."""
    model = copy.deepcopy(tiny_model("qwen3"))
    mlp = model.model.layers[0].mlp
    if kind == "hook":
        mlp.register_forward_hook(lambda *_: None)
    else:
        forward = mlp.forward
        mlp.forward = lambda x: forward(x)
    paged = mp.PagedModel(model, 32, 4)
    monkeypatch.setattr(paged, "device", torch.device("cuda"))
    assert "remove them before you wrap it" in why_no_graphs(paged)
    with pytest.raises(ValueError, match='or leave it at run="eager"'):
        make_runner(paged, "graphs", 8, 64)


def test_kernels_are_compiled_before_anything_is_captured(monkeypatch):
    def noted(runner):
        raise KeyError("compiled first")

    monkeypatch.setattr(GraphRunner, "_compile_kernels", noted)
    with pytest.raises(KeyError, match="compiled first"):
        GraphRunner(mp.PagedModel(tiny_model("qwen3"), 32, 4, replayable), 8)


@pytest.mark.parametrize(
    "num_sequences, rows", [(24, (24, 16, 8)), (16, (16, 8, 8)), (3, (8, 8, 8))]
)
def test_steps_that_only_compile_change_nothing(monkeypatch, num_sequences, rows):
    """Of all grades, the largest first; nothing is written, and answers are right."""
    engine = make(attention=replayable, max_sequences=num_sequences)
    replaying(engine)
    runner, sizes, eager = engine._runner, [], []

    def forward(size):
        sizes.append(size)
        return ReplayingRunner._forward(runner, size)

    for tensor in (*runner.paged.cache.keys, *runner.paged.cache.values):
        tensor.fill_(7.0)
    with monkeypatch.context() as patch:
        patch.setattr(runner, "_forward", forward)
        patch.setattr(runner, "forward", eager.append)
        runner._compile_kernels()
    # A prompt beside as many that decode as half of the graphs' rows.
    assert eager[-1].query_starts.diff().tolist() == [1] * rows[1] + [8]
    prompts, *decoding = sizes
    assert tuple(size.rows for size in decoding) == rows and not prompts.decodes
    for tensor in (*runner.paged.cache.keys, *runner.paged.cache.values):
        assert (tensor == 7.0).all()
    for prompt in PROMPTS[:3]:
        engine.add(prompt, config(6))
    right = huggingface_outputs(engine.paged.model, PROMPTS[:3], config(6))
    check(engine.run(), right)
