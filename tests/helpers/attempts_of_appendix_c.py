"""Right and wrong attempts at appendix C's exercises."""

import math
from fractions import Fraction
from itertools import groupby

import torch


def waves(num_programs, fit, multiprocessors):
    """Wave by wave, unlike the solution in the notebook."""
    num_waves, left = 0, num_programs
    while left > 0:
        left -= fit * multiprocessors
        num_waves += 1
    return num_waves, num_programs / (num_programs - left)


def waves_in_fractions(num_programs, fit, multiprocessors):
    room = fit * multiprocessors
    num_waves = -(-num_programs // room)
    return [num_waves, Fraction(num_programs, num_waves * room)]


def stretches(addresses, size=64):
    """In order of address, unlike the solution in the notebook."""
    end, num_stretches = 0, 0
    for address in sorted(addresses):
        if address >= end:
            end = address - address % size + size
            num_stretches += 1
    return num_stretches


def stretches_byte_by_byte(addresses, size=64):
    """Each of the four bytes is looked up."""
    return len({(first + byte) // size for first in addresses for byte in range(4)})


def sizes(num_seqs, context, num_kv_heads, multiprocessors):
    """Three kinds of programs, unlike the solution in the notebook."""
    on_each = num_seqs * num_kv_heads / multiprocessors
    if on_each >= 3:
        return 64, 2, 4, 1
    if on_each > 1.2:
        return 64, 2, 5, 1
    return 32, 1, 5, int(4 / on_each)


def two_on_each(tile, num_warps, num_stages, programs=2):
    """The same sizes everywhere, and as many splits as make so many programs."""

    def chosen(num_seqs, context, num_kv_heads, multiprocessors):
        splits = programs * multiprocessors // (num_seqs * num_kv_heads)
        return tile, num_warps, num_stages, max(1, splits)

    return chosen


def copied(num_seqs, context, num_kv_heads, multiprocessors):
    """What `decode_sizes` does for even batches of heads of 128 numbers."""
    on_each = num_seqs * num_kv_heads / multiprocessors
    if on_each < 1.5:
        return 32, 1, 5, int(4 / on_each)
    by_three, by_four = (on_each / n / math.ceil(on_each / n) for n in (3, 4))
    return (64, 2, 4, 1) if by_four > by_three else (128, 4, 2, 1)


def as_swept(num_seqs, context, num_kv_heads, multiprocessors):
    """The best of the sweep, and sizes that were measured nowhere else."""
    splits = {1: (16, 1, 3, 128), 8: (64, 2, 5, 4), 32: (64, 2, 5, 1)}
    return splits.get(num_seqs, (64, 2, 4, 1) if num_seqs == 64 else (16, 2, 5, 1))


class Warps:
    """Counts how often each place was taken, unlike the solution in the notebook."""

    async def produce(self, ring, num_tiles):
        laps = [0] * ring.places
        for tile in range(num_tiles):
            place = tile % ring.places
            if laps[place] > 0:
                await ring.empty[place].opened(laps[place] - 1)
            ring.copy(tile, place)
            laps[place] += 1

    async def consume(self, ring, num_tiles):
        for tile in range(num_tiles):
            lap, place = divmod(tile, ring.places)
            await self.multiply(ring, place, lap)

    async def multiply(self, ring, place, lap):
        await ring.full[place].opened(lap)
        await ring.multiply(place)
        ring.empty[place].arrive()


def eight_bits(text, new, margin=2.0):
    """Head by head, the scale by doubling, unlike the solution in the notebook."""
    numbers, scales = torch.empty_like(new), torch.ones(new.shape[1])
    for head in range(new.shape[1]):
        room = margin * max(map(abs, text[:, head].flatten().tolist()))
        while room and 448 * scales[head] < room:
            scales[head] *= 2
        while room and 448 * scales[head] / 2 >= room:
            scales[head] /= 2
        for token, row in enumerate((new[:, head] / scales[head]).tolist()):
            kept = [max(-448, min(448, number)) for number in row]
            numbers[token, head] = torch.tensor(kept)
    return numbers, scales


# --- what is wrong --------------------------------------------------------------------


def of_waves(rule):
    """So many waves, by a wrong rule; how full they are comes of it."""

    def attempt(num_programs, fit, multiprocessors):
        num_waves = rule(num_programs, fit, multiprocessors)
        return num_waves, num_programs / (num_waves * fit * multiprocessors)

    return attempt


def of_fullness(rule):
    """The waves are right; this is how full they are said to be."""

    def attempt(num_programs, fit, multiprocessors):
        num_waves = waves(num_programs, fit, multiprocessors)[0]
        return num_waves, rule(num_programs, num_waves, fit, multiprocessors)

    return attempt


def forgets_multiprocessors(num_programs, fit, multiprocessors):
    return waves(num_programs, fit, 1)


def forgets_fit(num_programs, fit, multiprocessors):
    return waves(num_programs, 1, multiprocessors)


def rounds_down_and_tells_percent(num_programs, fit, multiprocessors):
    """Two mistakes: the waves come first."""
    room = fit * multiprocessors
    return num_programs // room, 100 * waves(num_programs, fit, multiprocessors)[1]


def by_span(addresses, size=64):
    return (max(addresses) - min(addresses)) // size + 1


def by_aligned_span(addresses, size=64):
    return max(addresses) // size - min(addresses) // size + 1


def by_bytes(addresses, size=64):
    return 4 * len(addresses) // size


def neighbours(addresses, size=64):
    return len(list(groupby(addresses, lambda address: address // size)))


def changes(addresses, size=64):
    return neighbours(addresses, size) - 1


def from_the_first(addresses, size=64):
    return len({(address - addresses[0]) // size for address in addresses})


def from_the_smallest(addresses, size=64):
    return len({(address - min(addresses)) // size for address in addresses})


def which_come(addresses, size=64):
    return {address // size for address in addresses}


class NoBarriers(Warps):
    async def produce(self, ring, num_tiles):
        for tile in range(num_tiles):
            ring.copy(tile, tile % ring.places)

    async def multiply(self, ring, place, lap):
        await ring.multiply(place)


class NeverWaitsForFull(Warps):
    async def multiply(self, ring, place, lap):
        await ring.multiply(place)
        ring.empty[place].arrive()


class NeverWaitsForEmpty(NoBarriers):
    multiply = Warps.multiply


class WaitsForTheLapBefore(Warps):
    async def multiply(self, ring, place, lap):
        await ring.full[place].opened(lap - 1)
        await ring.multiply(place)
        ring.empty[place].arrive()


class GivesBackEarly(Warps):
    """The product is awaited, but only when its place is given back."""

    async def multiply(self, ring, place, lap):
        await ring.full[place].opened(lap)
        product = ring.multiply(place)
        ring.empty[place].arrive()
        await product


class NeverGivesBack(Warps):
    async def multiply(self, ring, place, lap):
        await ring.full[place].opened(lap)
        await ring.multiply(place)


class GivesBackTwice(Warps):
    async def multiply(self, ring, place, lap):
        await Warps.multiply(self, ring, place, lap)
        ring.empty[place].arrive()


class WaitsAtFirst(Warps):
    """For places that nobody has used yet."""

    async def produce(self, ring, num_tiles):
        for tile in range(num_tiles):
            place, lap = tile % ring.places, tile // ring.places
            await ring.empty[place].opened(lap)
            ring.copy(tile, place)


class KnowsTheLastBitOnly(Warps):
    """As if a barrier could be asked for an even or an odd lap: 0 and 1."""

    async def multiply(self, ring, place, lap):
        await Warps.multiply(self, ring, place, lap % 2)


class ForgetsAwait(Warps):
    async def multiply(self, ring, place, lap):
        await ring.full[place].opened(lap)
        await ring.multiply(place)
        ring.empty[place].opened(lap)
        ring.empty[place].arrive()


class TileByTile(Warps):
    """Waits until each tile is multiplied, as if there were one place."""

    async def produce(self, ring, num_tiles):
        for tile in range(num_tiles):
            place, lap = tile % ring.places, tile // ring.places
            ring.copy(tile, place)
            await ring.empty[place].opened(lap)


class AlwaysOnePlace(Warps):
    async def produce(self, ring, num_tiles):
        for tile in range(num_tiles):
            await ring.empty[0].opened(tile - 1)
            ring.copy(tile, 0)

    async def consume(self, ring, num_tiles):
        for tile in range(num_tiles):
            await self.multiply(ring, 0, tile)


class LeavesTheLast(Warps):
    async def consume(self, ring, num_tiles):
        await Warps.consume(self, ring, num_tiles - 1)


class BeyondTheRing(Warps):
    async def produce(self, ring, num_tiles):
        for tile in range(num_tiles):
            ring.copy(tile, tile)


class NotAsync:
    def produce(self, ring, num_tiles):
        ring.copy(0, 0)


def in_bits(
    largest=lambda text: text.abs().amax((0, 2)),
    wanted=lambda largest, margin: largest * margin / 448,
    rounded=lambda wanted: torch.exp2(torch.ceil(torch.log2(wanted))),
    least=2.0**-40,
    divided=lambda new, scale: (new / scale).clamp(-448, 448),
):
    """The solution, with another part here and there."""

    def attempt(text, new, margin=2.0):
        scales = rounded(wanted(largest(text), margin)).clamp(min=least)
        return divided(new, scales[..., None]), scales

    return attempt


def from_all_tokens(text, new, margin=2.0):
    return eight_bits(torch.cat([text, new]), new, margin)


def from_the_new(text, new, margin=2.0):
    return eight_bits(new, new, margin)


def first_the_scales(text, new, margin=2.0):
    return eight_bits(text, new, margin)[::-1]


# What the check must say of each mistake.
FAULTS = {
    "waves": [
        (
            of_waves(lambda n, fit, m: n // (fit * m)),
            "waves: got 1, expected 2; programs that are left over need a wave, too",
        ),
        (of_waves(lambda n, fit, m: max(1, n // (fit * m))), "left over need a wave"),
        (rounds_down_and_tells_percent, "left over need a wave"),
        (
            of_waves(lambda n, fit, m: max(1, round(n / (fit * m)))),
            "a wave that is less than half full is a wave, too",
        ),
        (
            of_waves(lambda n, fit, m: n // (fit * m) + 1),
            "waves: got 2, expected 1; one wave too many if the last one is just full",
        ),
        (of_waves(lambda n, fit, m: n / (fit * m)), "a number of waves is whole; the"),
        (
            of_waves(lambda *case: float(waves(*case)[0])),
            "waves: got 2.0, a float; a number of waves is whole: an int",
        ),
        (forgets_multiprocessors, "so many fit on each multiprocessor"),
        (forgets_fit, "more than one may fit on a multiprocessor"),
        (
            of_fullness(lambda n, w, fit, m: n / (fit * m) - (w - 1)),
            "fullness: got 0.292929, expected 0.646465; that is the last wave alone",
        ),
        (
            of_fullness(lambda n, w, fit, m: n % (fit * m) / (fit * m)),
            "that is the last wave alone",
        ),
        (
            of_fullness(lambda n, w, fit, m: 100 * n / (w * fit * m)),
            "got 64.6465, expected 0.646465; that is in percent",
        ),
        (of_fullness(lambda n, w, fit, m: n / (fit * m)), "above 1? Each wave has"),
        (
            of_fullness(lambda n, w, fit, m: n / (w * fit)),
            "so many fit on each multiprocessor",
        ),
        (
            of_fullness(lambda n, w, fit, m: n / (w * m)),
            "more than one may fit on a multiprocessor",
        ),
        (
            of_fullness(lambda n, w, fit, m: 1 - n / (w * fit * m)),
            "that is the share that stays empty",
        ),
        (of_fullness(lambda n, w, fit, m: w * fit * m / n), "upside down"),
        (of_fullness(lambda *case: 1.0), "empty places of the last wave count, too"),
        (of_fullness(lambda n, w, fit, m: n // (w * fit * m)), "// rounds down"),
        (
            of_fullness(lambda n, w, fit, m: round(n / (w * fit * m), 2)),
            "got 0.65, expected 0.646465; leave it as it is, not rounded",
        ),
        (of_fullness(lambda *case: "full"), "fullness: got 'full', expected 0.646465"),
        (
            lambda *case: waves(*case)[::-1],
            "got 0.646465 first, expected 2; the waves come first",
        ),
        (
            lambda *case: waves(*case)[0],
            "got 2, expected (2, 0.646465); return both: how many waves, and how full",
        ),
        (lambda *case: (*waves(*case), 0), "return both"),
        (lambda *case: None, "is a return missing?"),
        (lambda *case: waves(*case[:2]), "raised TypeError"),
    ],
    "stretches": [
        (
            by_span,
            "128 bytes apart: by_span(addresses=[4096, 4224, 4352,",
        ),
        (
            by_span,
            "got 63, expected 32; a stretch that nobody reads from does not come",
        ),
        (by_aligned_span, "a stretch that nobody reads from does not come"),
        (
            by_bytes,
            "got 2, expected 32; it matters where they read, not only how much",
        ),
        (
            lambda a, size: -(-4 * len(set(a)) // size),
            "it matters where they read",
        ),
        (neighbours, "in whatever order the threads read from it"),
        (changes, "got 1, expected 2; the first stretch comes, too"),
        (
            lambda a, size: len(set(a)),
            "got 32, expected 2; threads that read from the same stretch share it",
        ),
        (lambda a, size: len(a), "threads that read from the same stretch share it"),
        (
            lambda a, size: len({address / size for address in a}),
            "threads that read from the same stretch share it",
        ),
        (
            from_the_first,
            "got 2, expected 3; a stretch begins at a multiple of its size",
        ),
        (from_the_smallest, "a stretch begins at a multiple of its size"),
        (
            lambda a, size: len({address % size for address in a}),
            "that is where they read inside of a stretch",
        ),
        (
            lambda a, size: len({round(address / size) for address in a}),
            "a stretch ends where the next one begins: round down",
        ),
        (lambda a, size: stretches(a), "a stretch need not have 64 bytes"),
        (lambda a, size: size * stretches(a, size), "that is in bytes"),
        (lambda a, size: float(stretches(a, size)), "a float; a count is an int"),
        (which_come, "got {64, 65}, expected 2; return how many, not which"),
        (lambda a, size: None, "is a return missing?"),
        (lambda a, size: stretches(a, 0), "raised ZeroDivisionError"),
    ],
    "sizes": [
        (lambda *a: (64, 4, 3, 1), "in about 1 split, no sizes were quicker than"),
        (lambda *a: (64, 2, 4, 128), "With splits"),
        (two_on_each(16, 1, 1), "above the best"),
        (two_on_each(64, 2, 5), "With stages 4 alone"),
        (two_on_each(48, 4, 3), "tile 48 was not measured; choose from [16, 32, 64"),
        (two_on_each(64, 3, 3), "warps 3 was not measured"),
        (two_on_each(64, 4, 6), "stages 6 was not measured"),
        (lambda *a: (64, 4, 3), "expected four numbers"),
        (lambda n, c, k, m: (64, 2, 4, 2 * m / (n * k)), "divide with //"),
        (
            lambda n, c, k, m: (64, 2, 4, 2 * m // (n * k)),
            "0 splits: at least 1, max(1",
        ),
        (two_on_each(64, 2, 4, programs=4), "NVIDIA H200, 40x4k: 174 us, the best"),
        (as_swept, "none of your sizes were measured on 24x4k, 40x4k, 48x2k"),
        (lambda n, *a: {1: (64, 2, 5, 33), 8: (64, 2, 5, 4)}[n], "KeyError"),
    ],
    "warps": [
        (NoBarriers, "await that the place is empty"),
        (NeverWaitsForFull, "await that the place is full"),
        (NeverWaitsForEmpty, "await that the place is empty, in the lap before"),
        (WaitsForTheLapBefore, "await that the place is full, in this tile's lap"),
        (GivesBackEarly, "a product reads its tile until it is done: await it first"),
        (NeverGivesBack, "nobody can go on: the producer waits for empty[0] to open"),
        (GivesBackTwice, "arrives at empty[0] twice for one tile"),
        (WaitsAtFirst, "at first, all places are empty"),
        (KnowsTheLastBitOnly, "await that the place is full, in this tile's lap"),
        (ForgetsAwait, "write `await`"),
        (TileByTile, "1 tile copied before the first product is done"),
        (AlwaysOnePlace, "1 tile copied before the first product is done"),
        (LeavesTheLast, "has multiplied 5 of 6 tiles"),
        (BeyondTheRing, "IndexError"),
        (NotAsync, "expected a method `async def produce`"),
        (lambda: None, "expected a method `async def produce`"),
    ],
}

FAULTS["eight_bits"] = [
    (
        in_bits(divided=lambda new, scale: new / scale),
        "with scale 0.125: got -832, expected -448; a cast may make NaN of it: clamp",
    ),
    (
        in_bits(divided=lambda new, scale: new.clamp(-448, 448) / scale),
        "clamp after the division, not before",
    ),
    (
        in_bits(divided=lambda new, scale: (new / scale).clamp(max=448)),
        "what is below -448 does not fit, either",
    ),
    (
        in_bits(divided=lambda new, scale: (new * scale).clamp(-448, 448)),
        "divide by the scale when storing",
    ),
    (
        in_bits(divided=lambda new, scale: (new / scale).round().clamp(-448, 448)),
        "the cast rounds, and not to whole numbers",
    ),
    (
        in_bits(divided=lambda new, scale: (new / scale).to(torch.float8_e4m3fn)),
        "do not cast them: return what the cast is given",
    ),
    (in_bits(divided=lambda new, scale: new[:1]), "expected tensor[4, 2, 5], as `new`"),
    (
        in_bits(largest=lambda text: text.abs().amax()),
        "scales: got tensor[], expected tensor[2]; one scale for all heads",
    ),
    (
        in_bits(largest=lambda text: text.abs().amax().expand(text.shape[1])),
        "one scale for all heads; each head has its own",
    ),
    (
        in_bits(
            largest=lambda text: text.abs().amax((0, 1)),
            divided=lambda new, scale: (new / scale[:, 0]).clamp(-448, 448),
        ),
        "got tensor[5], expected tensor[2]; the largest over all tokens and all",
    ),
    (
        in_bits(
            largest=lambda text: text.abs().amax(2), divided=lambda new, scale: new
        ),
        "got tensor[6, 2], expected tensor[2]; the largest over all tokens",
    ),
    (
        in_bits(largest=lambda text: text.amax((0, 2))),
        "a number below 0 needs room, too",
    ),
    (
        in_bits(wanted=lambda largest, margin: largest / margin / 448),
        "the margin makes room: it makes the scale larger, not smaller",
    ),
    (in_bits(wanted=lambda largest, margin: largest / 448), "where is the margin?"),
    (
        in_bits(wanted=lambda largest, margin: 2 * largest / 448),
        "the margin is not always 2",
    ),
    (
        in_bits(wanted=lambda largest, margin: margin * largest / 240),
        "the largest number of e4m3 is 448",
    ),
    (
        in_bits(rounded=lambda wanted: torch.exp2(torch.floor(torch.log2(wanted)))),
        "too small: round up to a power of two",
    ),
    (
        in_bits(rounded=lambda wanted: torch.exp2(torch.floor(torch.log2(wanted)) + 1)),
        "a head for which a power of two just fits: scales: got [0.25,",
    ),
    (in_bits(rounded=lambda wanted: wanted), "so that multiplying by it rounds"),
    (in_bits(wanted=lambda largest, margin: 448 / largest / margin), "upside down"),
    (in_bits(least=0.0), "a head of zeros: new token 0, head 1, number 0: 0: got nan"),
    (from_the_new, "only the text decides"),
    (from_all_tokens, "the scales are known before the new tokens"),
    (first_the_scales, "the numbers come first, then the scales"),
    (lambda *case: eight_bits(*case)[0], "expected (numbers, scales); return both"),
    (lambda *case: None, "is a return missing?"),
    (lambda *case: (eight_bits(*case)[0], [1.0]), "got [1.0], expected a tensor"),
    (lambda text, new, m: eight_bits(text[0, 0], new, m), "raised IndexError"),
]

# Unlike what the notebook does, and right as well.
ALSO_RIGHT = [
    ("sizes", copied),
    ("stretches", stretches_byte_by_byte),
    ("waves", waves_in_fractions),
    ("eight_bits", in_bits()),
]
