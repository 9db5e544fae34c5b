"""Right and wrong attempts at lesson 3's exercises, and what each is told."""


def shared_blocks(first, second, size):
    ends = range(size, min(len(first), len(second) - 1) + 1, size)
    return sum(first[:end] == second[:end] for end in ends)


def free_order(unused, tables, size):
    """By the last moment of each block, unlike the solution in the notebook."""
    moment_of = {block: (-at, False) for at, block in enumerate(unused)}
    moment = 0
    for ids, count in tables:
        for index in reversed(range(len(ids))):
            moment += 1
            moment_of[ids[index]] = (moment, index < count // size)
    plain = [block for block, (_, is_full) in moment_of.items() if not is_full]
    found = [block for block, (_, is_full) in moment_of.items() if is_full]
    plain.sort(key=lambda block: moment_of[block], reverse=True)
    return plain + sorted(found, key=lambda block: moment_of[block])


def block_keys(tokens, size, salt):
    """All tokens up to the end of each full block."""
    ends = range(size, len(tokens) + 1, size)
    return [(salt, tuple(tokens[:end])) for end in ends]


class PrefixIndex:
    """With whole pasts as keys, unlike the solution in the notebook."""

    def __init__(self, size):
        self.size, self.blocks = size, {}

    def publish(self, tokens, block_ids):
        for key, id_ in zip(block_keys(tokens, self.size, b""), block_ids, strict=True):
            if id_ not in self.blocks.setdefault(key, []):
                self.blocks[key].append(id_)

    def find(self, tokens):
        found = []
        for key in block_keys(tokens[:-1], self.size, b""):
            if not self.blocks.get(key):
                break
            found.append(self.blocks[key][0])
        return found

    def forget(self, block_id):
        for ids in self.blocks.values():
            if block_id in ids:
                ids.remove(block_id)


class KeepsTheFirst(PrefixIndex):
    """As the lesson's toy does."""

    def publish(self, tokens, block_ids):
        for key, id_ in zip(block_keys(tokens, self.size, b""), block_ids, strict=True):
            if not self.blocks.get(key):
                self.blocks[key] = [id_]


class KeepsTheLast(PrefixIndex):
    """A second block of the same content takes the first one's place."""

    def publish(self, tokens, block_ids):
        for key, id_ in zip(block_keys(tokens, self.size, b""), block_ids, strict=True):
            self.blocks[key] = [id_]


class StoresTwice(PrefixIndex):
    """Publishing a known block again leaves it behind when it is forgotten."""

    def publish(self, tokens, block_ids):
        for key, id_ in zip(block_keys(tokens, self.size, b""), block_ids, strict=True):
            self.blocks.setdefault(key, []).append(id_)

    def forget(self, block_id):
        for ids in self.blocks.values():
            if block_id in ids:
                ids.remove(block_id)
                return


class NeverForgets(PrefixIndex):
    def forget(self, block_id):
        pass


class ForgetsTwins(PrefixIndex):
    def forget(self, block_id):
        self.blocks = {k: ids for k, ids in self.blocks.items() if block_id not in ids}


class ForgetsTheFirstTwin(PrefixIndex):
    """A block that is not the first of its list is never forgotten."""

    def forget(self, block_id):
        for ids in self.blocks.values():
            if ids[:1] == [block_id]:
                ids.pop(0)


class StumblesOverEmptyLists(PrefixIndex):
    def find(self, tokens):
        found = []
        for key in block_keys(tokens[:-1], self.size, b""):
            if key not in self.blocks:
                break
            found.append(self.blocks[key][0])
        return found


class SkipsWhatItFinds(PrefixIndex):
    """Publishes only behind the blocks that are found already: twins are lost."""

    def publish(self, tokens, block_ids):
        keys = block_keys(tokens, self.size, b"")
        known = len(self.find(tokens))
        for key, id_ in list(zip(keys, block_ids, strict=True))[known:]:
            self.blocks.setdefault(key, []).append(id_)


class RemovesWithoutALook(PrefixIndex):
    def forget(self, block_id):
        for ids in self.blocks.values():
            ids.remove(block_id)


class SkipsGaps(PrefixIndex):
    def find(self, tokens):
        keys = block_keys(tokens[:-1], self.size, b"")
        return [self.blocks[key][0] for key in keys if self.blocks.get(key)]


class FindsAll(PrefixIndex):
    def find(self, tokens):
        return super().find([*tokens, 0])


class OwnTokensOnly(PrefixIndex):
    def find(self, tokens):
        own = {key[1][-self.size :]: ids for key, ids in self.blocks.items() if ids}
        found = []
        for key in block_keys(tokens[:-1], self.size, b""):
            if key[1][-self.size :] not in own:
                break
            found.append(own[key[1][-self.size :]][0])
        return found


class IdsForPasts(PrefixIndex):
    """The parent is named by its block, which is handed out again."""

    def content(self, tokens):
        return [key[1][-self.size :] for key in block_keys(tokens, self.size, b"")]

    def publish(self, tokens, block_ids):
        parent = None
        for own, id_ in zip(self.content(tokens), block_ids, strict=True):
            ids = self.blocks.setdefault((parent, own), [])
            if id_ not in ids:
                ids.append(id_)
            parent = ids[0]

    def find(self, tokens):
        found = []
        for own in self.content(tokens[:-1]):
            ids = self.blocks.get((found[-1] if found else None, own))
            if not ids:
                break
            found.append(ids[0])
        return found


class FindsASet(PrefixIndex):
    def find(self, tokens):
        return set(super().find(tokens))


class FindsLists(PrefixIndex):
    """All twins of each block, where one id is wanted."""

    def find(self, tokens):
        return [[block] for block in super().find(tokens)]


class ForgetIsLeft(PrefixIndex):
    def forget(self, block_id):
        raise NotImplementedError


class FindIsLeft(PrefixIndex):
    def find(self, tokens):
        raise NotImplementedError


def orders(
    backwards=True,
    plain_first=True,
    counts_up=False,
    unused_on_top=False,
    plain_is_queue=False,
    found_is_stack=False,
    last_is_plain=False,
    full_once=False,
    later=lambda tables, at: tables[at + 1 :],
):
    """Right, if nothing is said; else with this mistake."""

    def order(unused, tables, size):
        plain, found, ever_full = [], [], set()
        for at, (ids, count) in enumerate(tables):
            num_full = -(-count // size) if counts_up else count // size
            num_full = min(num_full, len(ids) - 1) if last_is_plain else num_full
            full = set(ids[:num_full])
            ever_full |= full if full_once else set()
            still_held = {id_ for others, _ in later(tables, at) for id_ in others}
            for id_ in reversed(ids) if backwards else ids:
                if id_ not in still_held:
                    (found if id_ in full | ever_full else plain).append(id_)
        plain = plain if plain_is_queue else plain[::-1]
        plain = [*unused, *plain] if unused_on_top else [*plain, *unused]
        found = found[::-1] if found_is_stack else found
        return plain + found if plain_first else found + plain

    return order


# A wrong attempt, and words that its verdict must contain: they name the mistake.
FAULTS = {
    "shared_blocks": [
        (lambda one, two, size: shared_blocks(one, [*two, 0], size), "last token"),
        (lambda one, two, size: min(len(one), len(two) - 1) // size, "differ already"),
        (lambda one, two, size: -(-shared_blocks(one, two, 1) // size), "not full"),
        (
            lambda one, two, size: sum(
                one[at : at + size] == two[at : at + size]
                for at in range(0, len(two) - size, size)
            ),
            "first difference",
        ),
        (lambda one, two, size: size * shared_blocks(one, two, size), "not tokens"),
        (lambda one, two, size: shared_blocks(one[:-1], two[:-1], size), "first one"),
        (lambda one, two, size: shared_blocks(one, two, 2), "one token each"),
        (lambda one, two, size: print(shared_blocks(one, two, size)), "return missing"),
        (lambda one, two, size: float(shared_blocks(one, two, size)), "divide by //"),
    ],
    "free_order": [
        (orders(backwards=False), "its last block first"),
        (orders(plain_first=False), "unused ones go before them"),
        (orders(counts_up=True), "block 2 is not full"),
        (orders(unused_on_top=True), "never freed"),
        (orders(plain_is_queue=True), "3 was freed last"),
        (orders(found_is_stack=True), "freed first goes first"),
        (orders(last_is_plain=True), "blocks 0 and 1 are full"),
        (orders(later=lambda tables, at: []), "it is free once"),
        (orders(later=lambda tables, at: tables[:at]), "last holder"),
        (orders(later=lambda tables, at: tables[at + 1 :][:1]), "third table"),
        (orders(full_once=True), "handed out again"),
        # Right with three tables; only a pool that lived longer shows it.
        (orders(later=lambda tables, at: tables[at + 1 :][-2:]), "ends with"),
        (
            lambda unused, tables, size: free_order(unused, tables, 2),
            "one slot each",
        ),
        (
            lambda unused, tables, size: free_order(unused, tables, min(size, 2)),
            "three slots",
        ),
        (lambda unused, tables, size: free_order([], tables, size), "unused ones"),
        (
            lambda unused, tables, size: free_order(unused[::-1], tables, size),
            "unused ones",
        ),
        (
            lambda unused, tables, size: free_order(sorted(unused), tables, size),
            "in which they are given",
        ),
        (
            lambda unused, tables, size: list(
                dict.fromkeys(orders(later=lambda *_: [])(unused, tables, size))
            ),
            "last holder",
        ),
        (lambda *case: print(free_order(*case)), "return missing"),
    ],
    "prefix_index": [
        (KeepsTheFirst, "twin"),
        (KeepsTheLast, "twin"),
        (ForgetsTwins, "twin"),
        (StoresTwice, "again and again"),
        (SkipsWhatItFinds, "block 9 holds the same as block 5 did (a twin)"),
        (RemovesWithoutALook, "look first: most keys do not lead to this block"),
        (NeverForgets, "handed out"),
        (SkipsGaps, "first block that is missing"),
        (FindsAll, "last token"),
        (OwnTokensOnly, "another past"),
        (IdsForPasts, "holds other tokens now"),
        (FindsASet, "expected a list"),
        (FindsLists, "expected a list of ids"),
        (ForgetsTheFirstTwin, "neither may be found"),
        (StumblesOverEmptyLists, "as good as missing"),
        (ForgetIsLeft, "forget is not written yet"),
        (FindIsLeft, "find is not written yet"),
    ],
}
