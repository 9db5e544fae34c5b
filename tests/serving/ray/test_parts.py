"""What is told of a request that is sent again: no token twice, none left out."""

import pytest
from transformers import GenerationConfig

from minipaged.decoding.strategy import Output
from minipaged.serving.messages import Add, Begun, News
from minipaged.serving.ray.parts import OtherAnswer, Part, Told, news_of, parts_of

GREEDY = {"generation_config": GenerationConfig(do_sample=False), "seed": None}
DRAWN = {"generation_config": GenerationConfig(do_sample=True), "seed": None}
SEEDED = DRAWN | {"seed": 3}


def told(arguments=GREEDY, is_streamed=True):
    return Told(Add(0, [5], arguments, is_streamed))


def tokens(told, *parts):
    return [told.new(Part(tokens=list(part))).tokens for part in parts]


def test_news_are_told_request_by_request_and_together_again():
    end = Output([[7, 8]], "length")
    news = News(
        accepted=[2],
        begun={1: Begun(0.5, 16, None)},
        tokens={1: [7, 8]},
        ended={1: end},
        failed={3: (400, "no")},
    )
    parts = parts_of(news)
    assert {number: part.is_last for number, part in parts.items()} == {
        1: True, 2: False, 3: True
    }  # fmt: skip
    assert news_of(5, parts[1]) == News(
        begun={5: Begun(0.5, 16, None)}, tokens={5: [7, 8]}, ended={5: end}
    )
    assert news_of(2, parts[2]) == News(accepted=[2])


def test_a_reader_who_is_behind_gets_several_parts_as_one():
    part = Part(accepted=True)
    part.add(Part(begun=Begun(0, 0, None), tokens=[1]))
    part.add(Part(tokens=[2, 3], ended=Output([[1, 2, 3]], "stop")))
    assert part.accepted and part.begun and part.tokens == [1, 2, 3] and part.is_last


def test_a_second_answer_is_told_from_where_the_first_one_broke_off():
    one = told()
    assert tokens(one, [1, 2], [3]) == [[1, 2], [3]]
    one.begin_again()
    # Other steps bring other parts.
    assert tokens(one, [1], [2, 3, 4], [5]) == [[], [4], [5]]
    assert one.tokens == [1, 2, 3, 4, 5]
    one.begin_again()
    assert tokens(one, [1, 2, 3, 4, 5, 6]) == [[6]]


def test_what_was_accepted_and_has_begun_is_told_once():
    one = told()
    begun = Part(accepted=True, begun=Begun(1, 0, None), tokens=[1])
    first = one.new(begun)
    one.begin_again()
    again = one.new(begun)
    assert first.accepted and first.begun
    assert not again.accepted and again.begun is None


def test_logprobs_go_with_their_tokens():
    one = told()
    one.new(Part(tokens=[1, 2], logprobs=["of 1", "of 2"]))
    one.begin_again()
    again = one.new(Part(tokens=[1, 2, 3], logprobs=["of 1", "of 2", "of 3"]))
    assert again.logprobs == ["of 3"]


@pytest.mark.parametrize("second", [[[9]], [[1], [2, 9]], [[1, 9, 3]]])
def test_another_answer_is_never_told_as_the_rest_of_the_first(second):
    one = told()
    tokens(one, [1, 2, 3])
    one.begin_again()
    with pytest.raises(OtherAnswer):
        tokens(one, *second)


def test_if_the_client_has_seen_nothing_the_front_forgets_the_first_answer():
    one = told(DRAWN, is_streamed=False)
    tokens(one, [1, 2])
    assert one.may_be_sent_again
    one.begin_again()
    new = one.new(Part(tokens=[7]))
    assert new.restarted and new.tokens == [7] and one.tokens == [7]
    assert news_of(4, new).restarted == [4]
    assert not one.new(Part(tokens=[8])).restarted


@pytest.mark.parametrize(
    ("arguments", "is_streamed", "may"),
    [
        (GREEDY, True, True),
        (SEEDED, True, True),
        (DRAWN, True, False),
        (DRAWN, False, True),
    ],
)
def test_who_may_be_sent_again(arguments, is_streamed, may):
    one = told(arguments, is_streamed)
    assert one.may_be_sent_again  # nobody has seen anything
    one.new(Part(accepted=True))
    assert one.may_be_sent_again
    one.new(Part(tokens=[1]))
    assert one.may_be_sent_again == may
