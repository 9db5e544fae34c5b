"""What may happen to a scheduler, as rules that hypothesis plays in any order."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from helpers.scheduling_machine import HASHES, KINDS, SALTS, Machine

BITS = st.lists(st.integers(0, 1), min_size=1, max_size=6)
INDEX = st.integers(0, 5)
BUDGETS = st.one_of(st.none(), st.integers(1, 8))


class Scheduling(RuleBasedStateMachine):
    """A pool so small that requests wait, and two tokens, so that prefixes meet."""

    @initialize(
        num_blocks=st.integers(3, 16),
        size=st.integers(1, 4),
        hash_function=st.sampled_from([None, *HASHES]),
        budgets=st.tuples(BUDGETS, BUDGETS),
    )
    def start(self, num_blocks, size, hash_function, budgets):
        names = "max_tokens", "max_prompt_tokens"
        given = {n: b for n, b in zip(names, budgets, strict=True) if b is not None}
        self.machine = Machine(num_blocks, size, hash_function, **given)

    @rule(
        kind=st.sampled_from(list(KINDS)),
        like=INDEX,
        cut=st.integers(0, 12),
        new=BITS,
        length=st.integers(1, 8),
        width=st.integers(2, 3),
        salt=st.sampled_from(SALTS),
    )
    def add(self, kind, like, cut, new, length, width, salt):
        texts = self.machine.texts
        prompt = texts[like % len(texts)][:cut] + new
        self.machine.add(kind, prompt, length, width, salt)

    @rule(run_ahead=st.booleans())
    def step(self, run_ahead):
        self.machine.step(run_ahead)

    @rule(run_ahead=st.booleans())
    def two_steps(self, run_ahead):
        self.machine.step(run_ahead)
        self.machine.step(run_ahead)

    @rule(run_ahead=st.booleans(), fuse=st.integers(1, 12), late=st.booleans())
    def interrupted_step(self, run_ahead, fuse, late):
        self.machine.step(run_ahead, fuse, late)

    @rule(run_ahead=st.booleans(), line=st.integers(1, 200))
    def step_interrupted_between_two_lines(self, run_ahead, line):
        self.machine.step(run_ahead, line, trace=True)

    @rule(index=INDEX)
    def abort(self, index):
        self.machine.abort(index)

    @rule(run_ahead=st.booleans(), index=INDEX)
    def abort_in_flight(self, run_ahead, index):
        self.machine.step(run_ahead, quitter=index)

    @rule(like=INDEX, cut=st.integers(0, 12), new=BITS, salt=st.sampled_from(SALTS))
    def somebody_comes(self, like, cut, new, salt):
        texts = self.machine.texts
        self.machine.come(texts[like % len(texts)][:cut] + new, salt)

    @rule(index=INDEX, keep=st.integers(0, 12), new=BITS)
    def somebody_cuts_and_goes_on(self, index, keep, new):
        self.machine.rewrite(index, keep, new)

    @rule(index=INDEX)
    def somebody_leaves(self, index):
        self.machine.leave(index)

    @rule(num_blocks=st.integers(1, 10), run_ahead=st.booleans())
    def somebody_takes_what_was_promised(self, num_blocks, run_ahead):
        self.machine.rob(num_blocks, run_ahead)

    @invariant()
    def pool_tables_and_prefixes_agree(self):
        self.machine.check()

    def teardown(self):
        if hasattr(self, "machine"):
            self.machine.drain()
