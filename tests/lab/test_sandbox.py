"""The sandbox: real objects, moves that happen wholly or not at all, and undo."""

import random
from collections import Counter

import pytest

import minipaged as mp
from helpers.free_blocks import free_blocks
from helpers.thorough import all_or
from minipaged.errors import OutOfBlocks
from minipaged.lab import check
from minipaged.lab.pool import board as boards
from minipaged.lab.pool.board import MOST, Board
from minipaged.lab.pool.guide import Guide, rehearse
from minipaged.lab.pool.names import Names
from minipaged.lab.pool.sandbox import Sandbox
from minipaged.lab.pool.scenes import SCENES
from minipaged.lab.pool.twin import FirstFit, Reservations
from minipaged.lab.pool.words import tell


def random_move(rng, board):
    """One of the moves that the widget offers, likely to make sense but not certain."""
    names = [*board.sequences, "Z"]
    kind = rng.choice(["start", "append", "append", "fork", "free", "free"])
    if kind == "start":
        return kind, rng.randint(0, 90), rng.random() < 0.5, rng.random() < 0.7
    if kind == "free":
        return kind, rng.choice(names)
    return kind, rng.choice(names), rng.randint(0, 20 if kind == "append" else 4)


def check_board(board):
    """What must hold after every move, whatever it was."""
    pool, sequences = board.pool, board.sequences.values()
    held = Counter(id_ for one in sequences for id_ in one.table.block_ids)
    assert [pool.refcount(id_) for id_ in range(pool.num_blocks)] == [
        held[id_] for id_ in range(pool.num_blocks)
    ]
    assert pool.num_free + len(held) == pool.num_blocks
    for one in sequences:
        assert one.table.num_tokens == len(one.tokens) > 0
        assert len(one.table.block_ids) == -(-len(one.tokens) // pool.block_size)


def order_of_free_blocks(board):
    """In which the pool will hand them out: a refusal must leave that alone, too."""
    return [list(each) for each in free_blocks(board.pool)]


def walk(sandbox, num_moves, seed=0):
    """Random moves; yields after each one, with the refusal if there was one."""
    rng = random.Random(seed)
    for _ in range(num_moves):
        try:
            sandbox.play(random_move(rng, sandbox.board))
        except (OutOfBlocks, ValueError) as error:
            yield error
        else:
            yield None


@pytest.mark.parametrize(
    "size, num_moves",
    all_or([((64, 16), 500), ((12, 4), 1000), ((5, 1), 1000)], [((12, 4), 1000)]),
)
def test_a_random_walk_and_all_of_it_undone(size, num_moves):
    sandbox = Sandbox(*size)
    seen, orders = [sandbox.board.snapshot()], [order_of_free_blocks(sandbox.board)]
    refused = 0
    for error in walk(sandbox, num_moves):
        check_board(sandbox.board)
        now = sandbox.board.snapshot(), order_of_free_blocks(sandbox.board)
        if error is None:
            seen.append(now[0])
            orders.append(now[1])
        else:
            refused += 1
            assert now == (seen[-1], orders[-1])
    assert len(sandbox.turns) > 200 and refused > 20
    while sandbox.turns:
        sandbox.undo()
        seen.pop(), orders.pop()
        assert sandbox.board.snapshot() == seen[-1]
        assert order_of_free_blocks(sandbox.board) == orders[-1]
    assert len(seen) == 1
    with pytest.raises(ValueError, match="nothing to undo"):
        sandbox.undo()


@pytest.mark.parametrize("size", [(64, 16), (8, 4)])
def test_a_random_walk_on_the_bare_board(size):
    """The sandbox would mend a move that fails half-way; here nobody does."""
    board, rng, refused = Board(*size), random.Random(1), 0
    for _ in range(1000):
        before, order = board.snapshot(), order_of_free_blocks(board)
        kind, *arguments = random_move(rng, board)
        try:
            getattr(board, kind)(*arguments)
        except (OutOfBlocks, ValueError):
            refused += 1
            assert (board.snapshot(), order_of_free_blocks(board)) == (before, order)
        check_board(board)
    assert refused > 50


def test_blocks_that_were_found_among_the_free_ones_are_counted():
    """Wrong: to count what is found as free for the taking, though it is not held."""
    board = Board(4, 4)
    board.start(13, True, True)
    board.free("A")
    board.start(4, False, False)
    before, order = board.snapshot(), order_of_free_blocks(board)
    with pytest.raises(OutOfBlocks, match="wanted 4 blocks, 3 free"):
        board.start(13, True, True)
    assert (board.snapshot(), order_of_free_blocks(board)) == (before, order)


def test_the_walk_would_notice_a_pool_that_frees_too_early(monkeypatch):
    class EagerRelease(mp.BlockPool):
        def release(self, block_id):
            self._refcounts[block_id] = 0
            self._free.append(block_id)

    monkeypatch.setattr(boards, "BlockPool", EagerRelease)
    sandbox = Sandbox(64, 16)
    with pytest.raises((AssertionError, mp.errors.BlockNotHeld)):
        for _ in walk(sandbox, 1000):
            check_board(sandbox.board)


def test_moves_made_together_are_one_turn_or_none():
    sandbox = Sandbox(4, 4)
    sandbox.play(("start", 8, False, False), ("fork", "A", 1))
    before = sandbox.board.snapshot()
    with pytest.raises(OutOfBlocks, match="wanted 3 blocks, 1 free of 4"):
        sandbox.play(("append", "A", 1), ("append", "B", 12))
    assert sandbox.board.snapshot() == before
    sandbox.undo()
    assert not sandbox.board.sequences and not sandbox.turns


def test_what_was_undone_is_done_again_unless_something_else_was_done():
    sandbox = Sandbox(8, 4)
    sandbox.play(("start", 8))
    sandbox.play(("fork", "A", 1))
    after = sandbox.board.snapshot()
    sandbox.undo()
    assert "B" not in sandbox.board.sequences
    assert sandbox.redo().words[0].startswith("A is forked")
    assert sandbox.board.snapshot() == after and not sandbox.undone
    sandbox.undo()
    sandbox.play(("append", "A", 1))
    with pytest.raises(ValueError, match="nothing to redo"):
        sandbox.redo()


def test_a_turn_knows_what_was_there_before():
    sandbox = Sandbox(8, 4)
    before = sandbox.board.snapshot()
    sandbox.play(("start", 8), ("free", "A"))
    assert sandbox.turns[-1].before == before


def test_to_begin_anew_keeps_no_turn():
    sandbox = Sandbox(8, 4)
    sandbox.play(("start", 8))
    sandbox.undo()
    sandbox.reset(5, 2)
    assert sandbox.board.pool.num_free == 5 and not sandbox.turns + sandbox.undone
    with pytest.raises(ValueError, match="num_blocks must be"):
        sandbox.reset(0, 2)
    assert sandbox.board.pool.num_free == 5


@pytest.mark.parametrize(
    "move",
    [
        ("append", "Z", 1),
        ("append", "A", 0),
        ("append", "A", True),
        ("fork", "A", 0),
        ("fork", "A", MOST),
        ("free", "Z"),
        ("start", 0, False, True),
        ("start", 10**6, True, True),
    ],
)
def test_a_refused_move_changes_nothing(move):
    board = Board(8, 4)
    board.start(9, True, True)
    board.start(9, False, True)
    board.free("B")  # two of its blocks are free and cached
    board.fork("A", 1)
    before, order = board.snapshot(), order_of_free_blocks(board)
    with pytest.raises((OutOfBlocks, ValueError)):
        getattr(board, move[0])(*move[1:])
    assert (board.snapshot(), order_of_free_blocks(board)) == (before, order)


def test_a_shared_prompt_is_found_only_with_the_cache():
    board = Board(32, 4)
    for uses_cache in (True, False, True):
        board.start(14, True, uses_cache)
    a, b, c = (one.table.block_ids for one in board.sequences.values())
    assert a[:3] == c[:3] and not {*a} & {*b} and a[3] != c[3]


def test_words_say_what_was_done():
    sandbox = Sandbox(16, 4)
    assert sandbox.play(("start", 6, False, True)) == (
        "A begins with 6 tokens: takes blocks 0 and 1",
        "block 0 is full and can be found from now on",
    )
    assert sandbox.play(("fork", "A", 2)) == (
        "A is forked into A, B and C: 2 more holders for blocks 0 and 1, and nothing "
        "is copied",
    )
    assert sandbox.play(("append", "B", 7)) == (
        "block 1 has 3 holders: copied to 2 before B writes; B also takes blocks 3 "
        "and 4",
        "blocks 2 and 3 are full and can be found from now on",
    )
    assert sandbox.play(("append", "A", 1))[0].startswith("block 1 has 2 holders")
    assert sandbox.play(("append", "C", 1)) == (
        "C gets 1 token: there is room in block 1",
    )
    assert sandbox.play(("free", "B")) == (
        "B ends: block 4 is free; blocks 2 and 3 are free, and can still be found; "
        "block 0 keeps other holders",
    )


def test_words_of_a_write_where_nothing_is_copied():
    sandbox = Sandbox(16, 4)
    sandbox.play(("start", 6, False, False))
    assert sandbox.play(("append", "A", 7)) == (
        "A gets 7 tokens: takes blocks 2 and 3",
    )
    sandbox.reset(16, 4)
    sandbox.play(("start", 8, False, False), ("fork", "A", 1))
    assert sandbox.play(("append", "B", 1)) == (
        "B gets 1 token: takes block 2, because block 1 is full",
    )


def test_words_of_what_is_found_and_what_is_forgotten():
    sandbox = Sandbox(4, 4)
    sandbox.play(("start", 12, True, True), ("free", "A"))
    assert sandbox.play(("start", 13, True, True)) == (
        "every free block can still be found: block 2, unused for longest, is handed "
        "out, and what was there is forgotten",
        "B begins with 13 tokens: blocks 0 and 1 found in the cache; takes blocks 2 "
        "and 3",
        "block 3 is full and can be found from now on",
    )
    sandbox.play(("free", "B"))
    said = sandbox.play(("start", 12, False, False))
    assert said[0].startswith("every free block can still be found: blocks 1 and 3, ")


def test_a_content_in_place_of_another_is_told():
    sandbox = Sandbox(1, 4)
    sandbox.play(("start", 4, False, True), ("free", "A"))
    forgotten, _, found = sandbox.play(("start", 4, False, True))
    assert forgotten.startswith("every free block can still be found: block 0, unused")
    assert found == "block 0 is full and can be found from now on"


def test_forks_are_told_before_the_ends_that_follow_them():
    board = Board(8, 4)
    board.start(6, False, False)
    before = board.snapshot()
    board.fork("A", 1)
    board.free("A")
    assert tell(before, board.snapshot()) == [
        "A is forked into A and B: 1 more holder for blocks 0 and 1, and nothing is "
        "copied",
        "A ends: blocks 0 and 1 keep other holders",
    ]


def test_equal_tables_are_no_fork():
    board = Board(8, 4)
    board.start(9, True, True)
    before = board.snapshot()
    board.start(9, True, True)
    board.sequences["A"].table.append(1)
    assert tell(before, board.snapshot())[0].startswith("B begins with 9 tokens: ")


def test_letters_come_again_once_their_bearer_has_ended():
    names, taken = Names(), set()
    for _ in range(26):
        taken.add(names.new(taken))
    assert len(taken) == 26
    assert names.new(taken) == "A2"
    taken.remove("C")
    assert names.new(taken) == "C"
    fresh = Names()
    assert [fresh.new(()) for _ in range(28)][-3:] == ["Z", "A", "B"]


@pytest.mark.parametrize("name", SCENES)
def test_a_scene_runs_to_its_end(name):
    sandbox = Sandbox()
    guide, scene = Guide(sandbox), SCENES[name]
    guide.begin(name)
    num_asked = 0
    while (step := guide.next_step) is not None:
        guide.go_on(guess=-1)
        check_board(sandbox.board)
        num_asked += bool(step.ask)
        assert bool(step.ask) == bool(guide.frames[-1].verdict)
        assert len(guide.frames) == len(sandbox.turns) and not guide.is_by_hand
    assert num_asked
    guide.go_on()  # at the end nothing more happens
    assert guide.frames == list(rehearse(name)) and len(guide.frames) == len(
        scene.steps
    )
    while len(guide.frames) > 1:
        guide.go_back()
        check_board(sandbox.board)
    with pytest.raises(ValueError, match="where the scene begins"):
        guide.go_back()
    guide.leave(6, 2)
    assert sandbox.board.pool.num_free == 6 and guide.scene is guide.next_step is None


ANSWERS = {
    "holes": [4, 28],
    "beams": [8, 1],
    "copy": [3],
    "prefix": [3],
    "eviction": [3, 3],
    "full": [4, 7],
    "recompute": ["C", 3],
    "swap": [3, 1],
}


@pytest.mark.parametrize("name", SCENES)
def test_what_a_scene_answers(name):
    guide, answers = Guide(Sandbox()), list(ANSWERS[name])
    guide.begin(name)
    while (step := guide.next_step) is not None:
        guess = answers.pop(0) if step.ask else None
        guide.go_on(guess)
        if step.ask:
            verdict = guide.frames[-1].verdict
            assert verdict.is_right and f"{guess}." in verdict.head
    assert not answers


def test_a_guess_of_zero_is_judged_and_none_is_not():
    guide = Guide(Sandbox())
    guide.begin("prefix")
    guide.go_on()
    guide.go_on(0)
    assert guide.frames[-1].verdict.head == "You said 0. It is 3."
    guide.go_back()
    guide.go_on(None)
    assert guide.frames[-1].verdict.head == "It is 3."


def test_the_holes_that_a_leaves_are_filled_in_its_order():
    """And the same sequences in one piece each do not fit, whatever is free."""
    sandbox = Sandbox()
    guide = Guide(sandbox)
    guide.begin("holes")
    for _ in range(3):
        guide.go_on()
    holes = list(sandbox.turns[-1].before.tables["A"].block_ids)
    assert holes == [0, 2, 4]
    guide.go_on()
    now = sandbox.board.snapshot()
    assert now.tables["C"].block_ids == (*holes, 6)
    assert "blocks 0, 2, 4, 6" in guide.frames[-1].big
    assert sandbox.board.sequences["C"].table.slot(9) == 17
    needed = now.twin.waiting["C"].wanted
    assert now.twin.num_free >= needed > max(p.size for p in now.twin.free_pieces)


def test_beams_hold_8_blocks_and_4_of_them_four_times():
    sandbox = Sandbox()
    guide = Guide(sandbox)
    guide.begin("beams")
    guide.go_on()
    guide.go_on()
    now = sandbox.board.snapshot()
    assert (now.num_held, now.num_unshared) == (8, 20)
    assert now.refcounts[:8] == (4, 4, 4, 4, 1, 1, 1, 1)
    assert now.num_empty == 4 * 6


def test_a_scene_disturbed_by_hand_says_so_and_can_be_mended():
    sandbox = Sandbox()
    guide = Guide(sandbox)
    guide.begin("full")
    guide.go_on()
    sandbox.play(("free", "B"))
    before = sandbox.board.snapshot()
    with pytest.raises(ValueError, match="moved by hand; go back, or begin again"):
        guide.go_on()
    assert sandbox.board.snapshot() == before and len(guide.frames) == 2
    guide.go_back()
    assert len(guide.frames) == 2 and len(sandbox.undone) == 1
    guide.go_on()
    assert len(guide.frames) == 3 and sandbox.turns[-1].words[0].startswith(
        "refused, and nothing has changed: wanted 3 blocks, 1 free of 8"
    )


@pytest.mark.parametrize("seed", range(3))
def test_a_random_walk_beside_contiguous_memory(seed):
    """One flag for each slot says whether the twin's pieces can be true."""
    sandbox, waited = Sandbox(), 0
    sandbox.reset(16, 4, Reservations({"A": 20, "B": 28}, others=9))
    rng = random.Random(seed)
    for _ in range(300):
        try:
            sandbox.play(random_move(rng, sandbox.board))
        except (OutOfBlocks, ValueError):
            continue
        if rng.random() < 0.2:
            sandbox.undo()
        twin, used = sandbox.board.snapshot().twin, [False] * 64
        sequences = sandbox.board.sequences
        assert list(twin.residents) == list(sequences)
        for name, one in twin.residents.items():
            assert one.num_tokens == len(sequences[name].tokens)
            if one.piece:
                start, size = one.piece
                assert size == one.wanted and not any(used[start : start + size])
                used[start : start + size] = [True] * size
        assert used.count(False) == twin.num_free
        waited += bool(twin.waiting)
    assert waited > 20


def test_first_fit_is_what_lesson_1_asks_for(capsys):
    """The check of that exercise is the judge."""
    check.first_fit(FirstFit)
    assert "accepted" in capsys.readouterr().out
