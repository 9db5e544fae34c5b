"""What a draft model knows of its cache, whoever holds the blocks."""

from random import Random

from minipaged.decoding.written_blocks import WrittenBlocks


def test_an_example():
    written = WrittenBlocks(4)
    text = [1, 2, 3, 4, 5, 6, 7]
    assert written.num_held(text, [8, 9]) == 0
    written.note(text, [8, 9], 7)
    assert written.num_held(text, [8, 9]) == 7
    assert written.num_held([*text, 1], [8, 9]) == 7
    assert written.num_held([1, 2, 3, 4, 5, 9], [8, 9]) == 5  # 9 was a wrong guess
    assert written.num_held([9, 2, 3, 4, 5, 6], [8, 9]) == 0
    assert written.num_held(text, [9, 8]) == 0  # the past is another one
    written.put([3, 8], written.texts([9, 7]))
    assert written.num_held(text, [8, 9]) == 0  # nobody knows what was in block 7
    written.note(text, [5, 6], 3)
    assert written.num_held(text, [5, 3]) == 3  # block 5 is not full


def test_it_never_knows_more_than_is_there():
    """A model of every slot beside it: which text, up to and with this token, is it?"""
    draw = Random(0)
    held = 0
    for _ in range(200):
        written, slots = WrittenBlocks(3), {}
        for _ in range(40):
            text = [draw.randrange(2) for _ in range(draw.randrange(1, 14))]
            blocks = draw.sample(range(6), -(-len(text) // 3))
            places = [blocks[at // 3] * 3 + at % 3 for at in range(len(text))]
            if draw.random() < 0.2:
                source, copy = draw.sample(range(6), 2)
                written.put([copy], written.texts([source]))
                for at in range(3):
                    slots[copy * 3 + at] = slots.get(source * 3 + at)
            count = written.num_held(text, blocks)
            for at, place in enumerate(places[:count]):
                assert slots[place] == tuple(text[: at + 1])
            held += count
            stop = draw.randrange(count, len(text) + 1)
            written.note(text, blocks, stop, draw.choice([0, count]))
            for at, place in enumerate(places[:stop]):
                slots[place] = tuple(text[: at + 1])
            assert written.num_held(text, blocks) == stop
    assert held > 1000
