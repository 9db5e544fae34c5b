"""A scheduler driven at random, with a model of every slot beside it; no torch.

    python -m helpers.scheduling_machine 100000

What a slot must hold is the name of a whole past: salt and tokens up to its own. So
whatever a request reads from a block that was shared, copied, cut or computed anew is
either its own text, or is noticed. A choice depends on the text so far and on what the
strategy has noted, so every request has one right answer, however it was interrupted.
"""

import sys
from collections import Counter
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from random import Random
from typing import NamedTuple
from zlib import crc32

from xxhash import xxh64_intdigest

from helpers.free_blocks import free_blocks
from minipaged import errors
from minipaged.errors import OutOfBlocks
from minipaged.memory.block_pool import BlockPool
from minipaged.memory.block_table import BlockTable
from minipaged.memory.prefix_cache import PrefixCache
from minipaged.scheduling.guesses import (
    GuessedWorks,
    computed,
    follow,
    let_guess,
    settle,
)
from minipaged.scheduling.interruption import StepUndo
from minipaged.scheduling.next_works import NextWorks
from minipaged.scheduling.request import Request
from minipaged.scheduling.scheduler import Scheduler

PACKAGE = str(Path(errors.__file__).parent)
CHANGES = set(
    "allocate release share revive forget append truncate fork free publish "
    "take start schedule commit _admit _let_go _note share_prompt end abort "
    "_make_room preempt _swap_out _resume _tidy_swap_space _is_room "
    "let_guess settle accept guess".split()
)
VOCABULARY, EOS = 3, 2
SALTS = (b"", b"", b"salt")
HASHES = (xxh64_intdigest, lambda data: xxh64_intdigest(data) & 1)


@contextmanager
def all_or_nothing(scheduler):
    """As `engine.loop.step` does it."""
    undo = StepUndo(scheduler)
    try:
        undo.begin()
        yield undo
    except BaseException:
        undo.undo()
        raise
    finally:
        if scheduler.pool.reserved_for == undo.thread:
            scheduler.pool.reserved_for = None


class Interrupted(BaseException):
    """As Ctrl-C: no Exception."""


def score(*numbers: int) -> int:
    """The same for the same numbers, and otherwise like a random one."""
    return crc32(bytes(numbers))


class Samples(NextWorks):
    """Each sample appends a token at every turn and ends by itself; greedy: a sample.

    `turn` stands for a generator's state: the choice depends on it.
    """

    runs_ahead = True  # may its next token be computed before this one is read?

    def __init__(self):
        self.turn = 0

    def tokens_ahead(self, request):
        return 1

    def save(self):
        return vars(self).copy()

    def restore(self, saved):
        vars(self).update(saved)

    def choose(self, tokens, index, turn):
        return EOS if score(*tokens, index, turn) % 8 == 0 else score(turn, *tokens) % 2

    def apply(self, request, works, pause):
        while len(request.sequences) < request.num_parallel:
            request.fork(request.sequences[0])
            pause()
        for index, one in enumerate(request.sequences):
            if one.finish_reason is None:
                one.append(self.choose(one.tokens, index, self.turn))
                pause()
                if one.tokens[-1] == EOS or len(one.tokens) > request.max_computed:
                    one.end("stop" if one.tokens[-1] == EOS else "length")
        self.turn += 1

    def answers(self, request):
        return [one.tokens for one in request.sequences]

    def expected(self, request):
        """What it answers if nothing is shared, waits or is interrupted."""
        answers = [list(request.prompt) for _ in range(request.num_parallel)]
        for index, tokens in enumerate(answers):
            for turn in range(request.max_new_tokens):
                tokens.append(self.choose(tokens, index, turn))
                if tokens[-1] == EOS:
                    break
        return answers


class Hesitant(Samples):
    """Now and then wants its last tokens computed once more, as if they were wrong."""

    runs_ahead = False

    def __init__(self):
        super().__init__()
        self.patience = 5

    def apply(self, request, works, pause):
        ((_, sequence, start, stop, _),) = works
        if stop < len(sequence.tokens):
            return  # logits of a token that is not the last: on the way back
        if self.patience and score(*sequence.tokens, self.patience) % 3:
            self.patience -= 1
            back = 1 + score(*sequence.tokens) % (stop - start)
            sequence.table.truncate(stop - back)
            pause()
        else:
            super().apply(request, works, pause)


class Guesses(GuessedWorks, Samples):
    """Computes guesses at its next tokens, too, and takes those back that are wrong."""

    runs_ahead = False
    num_guesses = 3

    def apply(self, request, works, pause):
        (answer,) = request.answers
        text = answer.tokens[: answer.num_known]
        branch, tokens = follow(
            [work.sequence for work in works],
            lambda branch, place: self.choose(
                branch.tokens[: len(text) + place], 0, self.turn + place
            ),
        )
        for count, token in enumerate(tokens, 1):
            is_last = len(text) + count > request.max_computed
            if token == EOS or is_last:
                break
        self.turn += count
        num_right = min(count, len(tokens) - 1)
        pause()
        settle(request, answer, branch, num_right)
        pause()
        if count > num_right:
            answer.append(token)
        pause()
        if token == EOS or is_last:
            return answer.end("stop" if token == EOS else "length")
        branches = [
            self.guesses(answer.tokens, number, request.max_computed)
            for number in range(self.num_branches)
        ]
        let_guess(request, answer, branches)
        pause()

    def guesses(self, tokens, number, most):
        """A few; those of each branch are right, where they are not forgotten."""
        text = tokens.copy()
        for turn in range(self.turn, self.turn + score(*text, number) % 4):
            if len(text) == most:
                break
            next_one = self.choose(text, 0, turn)
            text.append(next_one if score(*text, turn, number) % 3 else 1)
        return text[len(tokens) :]


class GuessesAhead(Guesses):
    """As Guesses; the next step is planned as if all of them were right."""

    runs_ahead = True
    num_guesses = 2

    def __init__(self):
        super().__init__()
        self.num_wrong = 0  # of the last step

    def tokens_ahead(self, request):
        (answer,) = request.answers
        length = len(answer.tokens)
        if answer.num_known < length >= request.max_computed:
            return 0
        wanted = 1 + score(*answer.tokens[: answer.num_known], 7) % self.num_guesses
        return 1 + max(0, min(wanted, request.max_computed - length - 1))

    def apply(self, request, works, pause):
        (answer,) = request.answers
        text = answer.tokens[: answer.num_known]
        _, tokens = follow(
            [answer],
            lambda _, place: self.choose(
                answer.tokens[: len(text) + place], 0, self.turn + place
            ),
        )
        for count, token in enumerate(tokens, 1):
            is_last = len(text) + count > request.max_computed
            if token == EOS or is_last:
                break
        num_right = len(tokens) - 1
        self.num_wrong = len(answer.tokens) - len(text) - num_right
        self.turn += count
        pause()
        settle(request, answer, answer, num_right)
        pause()
        if count == len(tokens):
            answer.append(token)
        else:
            del answer.tokens[len(text) + count :]
        pause()
        if token == EOS or is_last:
            return answer.end("stop" if token == EOS else "length")
        guesses = self.guesses(answer.tokens, 0, request.max_computed)
        if count := answer.num_pending:  # the device has guessed so many
            answer.guess([*guesses[:1], 1, 1, 1][:count])
            answer.num_pending = 0
        elif answer.num_uncomputed:
            let_guess(request, answer, [guesses])
        pause()


class Branches(Guesses):
    """Guesses in forks, too; the answer takes over the blocks of the best."""

    num_branches = 3


class Beams(NextWorks):
    """The best continuations of all beams go on; the others are dropped."""

    runs_ahead = False

    def __init__(self):
        self.turn, self.best = 0, None

    save, restore = Samples.save, Samples.restore

    def choose(self, texts, width, turn):
        """The children, as (parent's index, token); and whether the search is over."""
        found = [(i, t) for i in range(len(texts)) for t in range(VOCABULARY)]
        found.sort(key=lambda one: score(*texts[one[0]], one[1]))
        return found[:width], score(*texts[0], turn) % 16 == 0

    def apply(self, request, works, pause):
        parents, width = request.live, request.num_parallel
        texts = [parent.tokens for parent in parents]
        children, is_over = self.choose(texts, width, self.turn)
        self.turn += 1
        pause()
        if is_over or self.turn == request.max_new_tokens:
            for parent in parents:
                parent.end("dropped")
            self.best = [[*texts[i], token] for i, token in children]
            return
        sequences = [None] * width
        for index, parent in enumerate(parents):
            places = [p for p, (i, _) in enumerate(children) if i == index]
            for place in places[1:]:
                sequences[place] = request.fork(parent)
                pause()
            if places:
                sequences[places[0]] = parent
            else:
                parent.end("dropped")
        for sequence, (_, token) in zip(sequences, children, strict=True):
            sequence.append(token)
            pause()
        request.answers = sequences

    def answers(self, request):
        return self.best

    def expected(self, request):
        texts = [request.prompt]
        for turn in range(request.max_new_tokens):
            children, is_over = self.choose(texts, request.num_parallel, turn)
            texts = [[*texts[i], token] for i, token in children]
            if is_over:
                break
        return texts


KINDS = {
    "greedy": Samples,
    "samples": Samples,
    "hesitant": Hesitant,
    "guesses": Guesses,
    "guesses ahead": GuessesAhead,
    "branches": Branches,
    "beams": Beams,
}


class Outsider(NamedTuple):
    """Somebody else on the same pool and prefix cache."""

    table: BlockTable
    tokens: list[int]
    salt: bytes


class Machine:
    """A scheduler, others on its pool, what every slot holds, and who is still to end.

    Every operation ends with `check`, which recomputes from the tables what pool and
    prefix cache say. `seen` counts, so that a test knows what it has tested.
    """

    def __init__(self, num_blocks, block_size, hash_function=None, **budget):
        self.pool = BlockPool(num_blocks, block_size)
        cached = hash_function is not None
        self.prefix = PrefixCache(self.pool, hash_function) if cached else None
        self.scheduler = Scheduler(self.pool, self.prefix, **budget)
        self.requests: list[Request] = []  # in the order they came, until they end
        self.worst: dict[Request, int] = {}
        self.outsiders: list[Outsider] = []
        self.robbed = False
        self.answers: list[list[int]] = [[]]
        self.content: list[object] = [None] * num_blocks * block_size
        self.names: dict[tuple, int] = {}
        self.pasts: dict[object, object] = {}  # what follows a published block's serial
        self.unwritten: dict = {}  # plan -> the slots of its works
        self.fuse = 0  # at which pause from now on an interruption comes; 0: at none
        self.seen: Counter = Counter()

    # --- operations -------------------------------------------------------------------

    def add(self, kind, prompt, max_new_tokens, num_parallel=1, salt=b""):
        """A request arrives, if it can fit beside the others at all."""
        width = num_parallel if kind in ("samples", "beams") else 1
        request = Request(
            prompt, max_new_tokens, KINDS[kind](), width, kind == "beams", salt
        )
        worst = request.blocks_at_most(self.pool.block_size)
        if worst > self.pool.num_blocks - len(self.theirs) or (
            width > self.scheduler.max_tokens
        ):
            return
        self.scheduler.add(request)
        self.requests.append(request)
        self.worst[request] = worst
        self.seen[kind] += 1
        self.check()

    def step(self, run_ahead=False, fuse=0, late=False, trace=False, quitter=None):
        """One turn of the loop; with `run_ahead` the next plan is made before it ends.

        quitter: which request is aborted while all this is in flight.
        fuse: interrupt it at this pause (`trace`: at this line of the package). late:
        what was in flight is computed all the same, while nobody waits for it any more.
        """
        before = self.what_is_written()
        self.fuse = fuse
        try:
            with all_or_nothing(self.scheduler) as undo:
                try:
                    if trace:
                        sys.settrace(self.trace)
                    self.turn(undo, run_ahead, quitter)
                finally:
                    sys.settrace(None)
                    for plan in list(self.unwritten) if late and not self.fuse else ():
                        self.write(plan, checked=False)
        except (Interrupted, OutOfBlocks) as error:
            self.seen[type(error).__name__] += 1
            assert self.what_is_written() == before, "tokens changed"
            assert not (self.scheduler.running or self.scheduler.in_flight)
            assert list(self.scheduler.waiting) == self.requests, "order, or who waits"
            self.unwritten.clear()
        self.fuse = 0
        self.take_answers()
        self.check()

    def turn(self, undo, run_ahead, quitter=None):
        """As the engine's loop, but the tokens are chosen without logits."""
        scheduler = self.scheduler
        self.pause()
        if not scheduler.in_flight:
            self.schedule()
        plan = scheduler.in_flight[0]
        if plan in self.unwritten:
            self.write(plan)
        if run_ahead and len(scheduler.in_flight) == 1:
            for work in plan.works:
                if work.num_logits and self.may_run_ahead(work):
                    strategy = work.request.strategy
                    work.sequence.num_pending = strategy.tokens_ahead(work.request)
            self.schedule()
            self.seen["ahead"] += 1
        if quitter is not None:
            self.abort(quitter)
        self.pause()
        turns = [w.request for w in plan.works if w.num_logits and w.request.live]
        turns = list(dict.fromkeys(turns))
        undo.save_texts(turns)
        for request in turns:
            works = [work for work in plan.works if work.request is request]
            self.check_rows(request, works)
            request.strategy.apply(request, works, self.pause)
            self.move_back(request)
            self.pause()
        scheduler.commit(plan)
        self.pause()

    def move_back(self, request):
        """The next step was planned as if all guesses of this one were right."""
        back = getattr(request.strategy, "num_wrong", 0)
        for plan in list(self.scheduler.in_flight)[1:]:
            for place, work in enumerate(plan.works):
                if back and work.request is request:
                    start, stop = work.start - back, work.stop - back
                    plan.works[place] = work._replace(start=start, stop=stop)
                    self.unwritten[plan][place] = work.sequence.table.slots(0, stop)
                    self.seen["moved back"] += 1

    def abort(self, index):
        """Somebody does not want the answer any more."""
        if self.requests:
            request = self.requests.pop(index % len(self.requests))
            self.scheduler.abort(request)
            self.seen["aborts"] += 1
        self.check()

    def come(self, tokens, salt=b""):
        """An outsider takes what it finds and appends the rest, if blocks are spare."""
        if -(-len(tokens) // self.pool.block_size) <= self.spare:
            found = self.prefix.match(tokens, salt) if self.prefix else []
            held = len(found) * self.pool.block_size
            table = BlockTable(self.pool, found, held)
            self.outsiders.append(Outsider(table, tokens[:held], salt))
            self.rewrite(len(self.outsiders) - 1, held, tokens[held:])
        self.check()

    def rewrite(self, index, keep, tokens):
        """An outsider cuts its table, goes on with other tokens, and publishes."""
        if self.outsiders:
            outsider = self.outsiders[index % len(self.outsiders)]
            table, own, salt = outsider
            keep = min(keep, len(own))
            table.truncate(keep)
            del own[keep:]
            if table.blocks_needed(len(tokens)) <= self.spare:
                self.copy(table.append(len(tokens)))
                own += tokens
                slots, past = table.slots(0, len(own)), self.past(own, salt)
                assert self.read(slots[:keep]) == past[:keep], "an outsider's text"
                self.fill(slots[keep:], past[keep:])
                if self.prefix:
                    self.prefix.publish(own, table.block_ids, salt)
        self.check()

    def leave(self, index):
        """An outsider gives its blocks back."""
        if self.outsiders:
            self.outsiders.pop(index % len(self.outsiders)).table.free()
        self.check()

    def rob(self, num_blocks, run_ahead=False):
        """An outsider takes blocks which were promised: a step may fail, cleanly."""
        table = BlockTable(self.pool)
        table.append(min(num_blocks, self.pool.num_free) * self.pool.block_size)
        slots = table.slots(0, table.num_tokens)
        self.fill(slots, slots)
        self.outsiders.append(Outsider(table, [], b""))
        self.robbed = True
        self.step(run_ahead)
        self.robbed = False
        self.leave(-1)

    def drain(self):
        """Everybody gets an answer, and all blocks are free."""
        while self.outsiders:
            self.leave(0)
        longest = sum(r.max_computed + r.num_parallel * 9 for r in self.requests)
        for _ in range(10 + 6 * longest):
            if not (self.requests or self.scheduler.in_flight):
                break
            self.step()
        assert not (self.requests or self.scheduler.running), "it spins"
        assert self.pool.num_free == self.pool.num_blocks

    # --- what an operation does -------------------------------------------------------

    def pause(self):
        self.fuse -= 1
        if self.fuse == 0:
            raise Interrupted

    def trace(self, frame, event, argument):
        """Count the lines of those functions of the package that change something."""
        code = frame.f_code
        if code.co_name not in CHANGES or not code.co_filename.startswith(PACKAGE):
            return None
        if event == "line":
            self.pause()
        return self.trace

    def may_run_ahead(self, work):
        return work.request.strategy.runs_ahead and work.request.num_parallel == 1

    def schedule(self):
        scheduler = self.scheduler
        was_idle = not scheduler.in_flight
        try:
            plan = scheduler.schedule()
        except OutOfBlocks as error:
            assert self.robbed, f"promised blocks are missing: {error}"
            raise
        assert plan.works or not (was_idle and self.requests), "nothing is done"
        self.check_plan(plan)
        slots = [work.sequence.table.slots(0, work.stop) for work in plan.works]
        self.unwritten[plan] = slots

    def write(self, plan, checked=True):
        """Compute a plan: what is read must be the sequence's own past."""
        self.copy(plan.copies)
        slots_of_works = self.unwritten.pop(plan)
        for work, slots in zip(plan.works, slots_of_works, strict=True):
            past = self.past(work.sequence.tokens, work.request.salt)
            past += [object()] * (work.stop - len(past))  # tokens never read
            read = self.read(slots[: work.start])
            known = min(work.start, len(work.sequence.tokens))  # it may have ended
            assert not checked or read[:known] == past[:known], "another text is read"
            self.fill(slots[work.start :], past[work.start : work.stop])

    def copy(self, copies):
        size = self.pool.block_size
        for source, target in copies:
            block = self.content[source * size : (source + 1) * size]
            self.content[target * size : (target + 1) * size] = block
            self.seen["copies"] += 1

    def read(self, slots):
        return [self.content[slot] for slot in slots]

    def fill(self, slots, past):
        for slot, name in zip(slots, past, strict=True):
            self.content[slot] = name

    def past(self, tokens, after):
        """The name of each token's past; `after`: a salt, or the name before."""
        names = []
        for token in tokens:
            known = (after, token)
            after = self.names.setdefault(known, len(self.names))
            names.append(after)
        return names

    def what_is_written(self):
        return [
            [
                (one.tokens[: one.num_known], one.finish_reason)
                for one in request.answers
            ]
            + [request.strategy.save()]
            for request in self.requests
        ]

    def take_answers(self):
        for request in [one for one in self.requests if not one.live]:
            strategy = request.strategy
            answers = strategy.answers(request)
            assert answers == strategy.expected(request), "another answer"
            self.requests.remove(request)
            self.answers = [*self.answers, answers[0]][-8:]
            self.seen["answers"] += 1
            self.seen["cached"] += request.num_cached_tokens > 0

    @property
    def texts(self):
        """For prompts that begin like another text, be it still being generated."""
        live = (one.tokens for request in self.requests for one in request.live)
        return [*self.answers, *live]

    @property
    def theirs(self):
        """The blocks of all outsiders."""
        return set(chain.from_iterable(one.table.block_ids for one in self.outsiders))

    @property
    def spare(self):
        """Blocks that nobody was promised, and that every request can do without."""
        size, pool = self.pool.block_size, self.pool
        running = self.scheduler.running
        promised = sum(request.blocks_to_come(size) for request in running)
        worst = max((self.worst[one] for one in self.requests), default=0)
        return min(pool.num_free - promised, pool.num_blocks - len(self.theirs) - worst)

    # --- what must hold ---------------------------------------------------------------

    def check_rows(self, request, works):
        together = request.live
        if isinstance(request.strategy, Branches):  # the last may have had no room
            together = computed(together)
        assert [work.sequence for work in works] == together, "together, or not"
        if not isinstance(request.strategy, Hesitant | Guesses):
            for work in works:
                assert work.stop == len(work.sequence.tokens), "logits of another token"

    def check_plan(self, plan):
        scheduler, copies = self.scheduler, [copy for _, copy in plan.copies]
        sources = {source for source, _ in plan.copies}
        assert len(set(copies)) == len(copies) and not sources & set(copies), "copies"
        prompts = [w.start < w.sequence.num_prefill_tokens for w in plan.works]
        assert prompts == sorted(prompts), "who decodes goes first"
        in_prompts = sum(
            w.num_tokens for w, one in zip(plan.works, prompts, strict=True) if one
        )
        assert in_prompts <= scheduler.max_prompt_tokens, "too many of prompts"
        assert plan.num_tokens <= scheduler.max_tokens, "too many tokens"
        for work in plan.works:
            assert work.start < work.stop == work.sequence.num_computed
            assert work.stop <= work.request.max_computed, "further than needed"
        for number, request in enumerate(scheduler.running):
            older = number == 0 or self.is_older(scheduler.running[number - 1], request)
            assert older, "somebody overtakes"

    def is_older(self, one, other):
        """By arrival; those who have ended or were aborted do not count."""
        here = self.requests
        known = one in here and other in here
        return not known or here.index(one) < here.index(other)

    def check(self):
        """Pool, prefix cache and tables agree, and what can be found is what it is."""
        pool, scheduler = self.pool, self.scheduler
        waiting = [one for request in scheduler.waiting for one in request.sequences]
        assert all(one.table is None for one in waiting), "who waits holds nothing"
        assert list(scheduler.waiting) == self.requests[-len(scheduler.waiting) :] or (
            not scheduler.waiting
        ), "first come first served"
        flying = [work for plan in scheduler.in_flight for work in plan.works]
        own = {
            *(one for r in scheduler.running for one in r.sequences),
            *(one for r in self.requests for one in r.sequences),
            *(work.sequence for work in flying),
        }
        tables = [one.table for one in own if one.table is not None]
        tables += [one.table for one in self.outsiders]
        held = Counter(chain.from_iterable(table.block_ids for table in tables))
        counts = {b: count for b, count in enumerate(pool.holders()) if count}
        assert counts == held, "holders are not counted right"
        assert pool.num_free + len(held) == pool.num_blocks, "blocks are lost"
        plain, cached = map(set, free_blocks(pool))
        assert len(plain) + len(cached) == pool.num_free, "free twice"
        assert not plain & cached and not (plain | cached) & set(held)
        for plan, slots in self.unwritten.items():
            for work, known in zip(plan.works, slots, strict=True):
                table = work.sequence.table
                assert table and table.slots(0, work.stop) == known, "lost in flight"
        if self.prefix:
            self.check_prefixes(plain, cached)
        size = pool.block_size
        for block in plain:  # nobody may read what is here
            self.content[block * size : (block + 1) * size] = [None] * size

    def check_prefixes(self, plain, cached):
        contents, size = self.prefix._contents, self.pool.block_size
        assert cached <= set(contents) and not plain & set(contents)
        indexed = list(chain.from_iterable(self.prefix._by_hash.values()))
        assert sorted(indexed) == sorted(contents), "the index knows other blocks"
        for block, (parent, tokens, serial, _) in contents.items():
            after = self.pasts.get(parent) if isinstance(parent, int) else parent
            if after is not None:  # None: its parent came and went within one step
                past = self.past(tokens, after)
                assert len(past) == size, "a part of a block is published"
                self.pasts[serial] = past[-1]
                found = self.content[block * size : (block + 1) * size]
                assert found == past, "something else is published"
        for request in self.scheduler.running:
            if request.drops_sequences:
                tables = [one.table.block_ids for one in request.live if one.table]
                own = {b for ids in tables for b in ids[len(request.prompt) // size :]}
                assert not own & set(contents), "a beam's own block can be found"


def random_machine(random: Random) -> Machine:
    """Small, so that blocks are scarce and prefixes meet."""
    budget = {}
    if random.random() < 0.5:
        budget["max_prompt_tokens"] = random.randint(1, 8)
    if random.random() < 0.5:
        budget["max_tokens"] = random.randint(1, 12)
    hash_function = random.choice([None, *HASHES, *HASHES])
    return Machine(random.randint(3, 20), random.randint(1, 4), hash_function, **budget)


def operate(machine: Machine, random: Random) -> None:
    """One operation, drawn at random."""

    def text():
        known = random.choice(machine.texts)
        cut = random.randint(0, len(known))
        return known[:cut] + [random.randint(0, 1) for _ in range(random.randint(1, 6))]

    def add():
        kind, length = random.choice(list(KINDS)), random.randint(1, 8)
        width = random.randint(2, 3)
        if kind == "guesses ahead":  # near its end, it does not run ahead
            length *= 4
        machine.add(kind, text()[:24], length, width, random.choice(SALTS))

    def step():
        quitter = random.randint(0, 9) if random.random() < 0.03 else None
        machine.step(random.random() < 0.5, quitter=quitter)

    def interrupt():
        flags = [random.random() < 0.6 for _ in range(3)]
        longest = 200 if flags[2] else 12
        machine.step(flags[0], 1 + int(longest * random.random() ** 2), *flags[1:])

    def rewrite():
        index, keep = random.randint(0, 9), random.randint(0, 12)
        machine.rewrite(index, keep, text()[:6])

    index = random.randint(0, 9)
    operations = {
        add: 8 if len(machine.requests) < 6 else 1,
        step: 16,
        interrupt: 4,
        lambda: machine.abort(index): 0.5,
        lambda: machine.come(text()[:12], random.choice(SALTS)): 2,
        rewrite: 2,
        lambda: machine.leave(index): 2,
        lambda: machine.rob(1 + index, random.random() < 0.5): 1,
    }
    random.choices(list(operations), list(operations.values()))[0]()


def run_operations(
    seed: int, count: int, each: int = 80, make=random_machine, operate=operate
) -> Counter:
    """So many operations, with a new machine after `each`; returns what was seen."""
    random, seen = Random(seed), Counter()
    for done in range(0, count, each):
        machine = make(random)
        for _ in range(min(each, count - done)):
            operate(machine, random)
        machine.drain()
        seen += machine.seen
    return seen


if __name__ == "__main__":
    print(dict(run_operations(0, int(sys.argv[1]))))
