"""Right and wrong attempts at lesson 3's exercises, and what each is told."""


def shared_blocks(first, second, size):
    ends = range(size, min(len(first), len(second) - 1) + 1, size)
    return sum(first[:end] == second[:end] for end in ends)


def block_keys(tokens, size, salt):
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


def own_keys(tokens, size, salt):
    return [(salt, *key[1][-size:]) for key in block_keys(tokens, size, salt)]


def parent_and_own(tokens, size, salt):
    """One block back only: the past before it is lost."""
    own = own_keys(tokens, size, salt)
    return list(zip([salt, *own], own, strict=False))


def text_keys(tokens, size, salt):
    return [(salt, "".join(map(str, key[1]))) for key in block_keys(tokens, size, salt)]


# A wrong attempt, and words that its verdict must contain: they name the mistake.
NAMED = {
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
    "block_keys": [
        (
            lambda t, size, salt: [key[1:] for key in block_keys(t, size, salt)],
            "another salt",
        ),
        (own_keys, "all tokens before"),
        (parent_and_own, "all tokens before"),
        (lambda t, size, salt: block_keys([*t, 0, 0], size, salt), "part-filled"),
        (lambda t, size, salt: block_keys(t, size, salt)[:-1], "the last one too"),
        (lambda t, size, salt: block_keys(t[:-1], size, salt), "the last one too"),
        (
            lambda t, size, salt: [
                (salt, sum(k[1])) for k in block_keys(t, size, salt)
            ],
            "order",
        ),
        (text_keys, "separator"),
        (
            lambda t, size, salt: [
                salt.decode() + "".join(f"{token}," for token in key[1])
                for key in block_keys(t, size, salt)
            ],
            "separator",
        ),
        (lambda t, size, salt: [object() for _ in block_keys(t, size, salt)], "alone"),
        (
            lambda t, size, salt: [hash(k) % 2**16 for k in block_keys(t, size, salt)],
            "64 bits",
        ),
        (
            lambda t, size, salt: [
                (salt, bytes(key[1])) for key in block_keys(t, size, b"")
            ],
            "range(0, 256)",
        ),
        (lambda t, size, salt: print(t), "return missing"),
        (
            lambda t, size, salt: [[*key] for key in block_keys(t, size, salt)],
            "tuples of lists",
        ),
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
WRONG = {name: [attempt for attempt, _ in cases] for name, cases in NAMED.items()}
