"""The incidents: what speaks for the cause and against each other suspect."""

import re
from functools import cache
from statistics import fmean

import pytest

from helpers.attempts_of_appendix_g import First, Second, Third
from helpers.attempts_of_incidents import OfAppendixB, OfLesson3, OfLesson4, with_
from helpers.notebook_files import ROOT, code_cells, exercises, load, source
from minipaged.lab import check
from minipaged.lab.tour import desk, harbour, incidents, kiosk, studio, tunnels
from minipaged.lab.tour.desk import BEFORE, TODAY, Desk
from minipaged.lab.tour.incidents import incident
from minipaged.lab.tour.incidents_of_lessons import incident_of
from minipaged.lab.tour.tunnels import LENGTH, Server, Setup, Trip

MODULES = {
    module.__name__.split(".")[-1]: module
    for module in (desk, harbour, incidents, kiosk, studio, tunnels)
}


@cache
def morning(release):
    return Desk(release).morning()


def wait(release):
    """Steps until the first token, on average."""
    return fmean(row["first_token_after"] for row in morning(release).log)


def test_only_without_ratings_do_first_tokens_come_in_less_than_half_of_the_steps():
    assert wait(TODAY) > 2.9 * wait(BEFORE)
    assert wait(TODAY._replace(rated_every=0)) < wait(TODAY) / 2
    for change in ("num_blocks", "num_keys", "together", "says_date"):
        taken_back = TODAY._replace(**{change: getattr(BEFORE, change)})
        assert wait(taken_back) > wait(TODAY) / 2, change


def test_the_hit_rate_does_not_show_what_nobody_looked_up():
    before, today = (morning(one).metrics() for one in (BEFORE, TODAY))
    rates = [
        one["prefix_cache_hits"] / one["prefix_cache_queries"]
        for one in (before, today)
    ]
    assert rates[1] > rates[0]
    assert today["prefix_cache_queries"] < 0.51 * today["prompt_tokens"]


def cut(**setup):
    """Who has not received the whole answer, but for Eve, who was away too long."""
    received = Server(Setup(**setup)).day().received
    return {
        user
        for user, tokens in received.items()
        if user != "Eve" and len(tokens) < LENGTH
    }


@pytest.mark.parametrize(
    ("setup", "users"),
    [
        ({}, {"Ben", "Gus"}),
        ({"num_blocks": 64}, {"Ben"}),  # it helps Gus, and is not the cause
        ({"patience": 100}, set()),  # all answers end before
        ({"may_end_early": False}, {"Ben", "Gus"}),
        ({"writes_in_vain": 0}, set()),
    ],
)
def test_short_tunnels_cut_an_answer_unless_the_server_sees_them_at_once(setup, users):
    assert cut(**setup) == users


def test_a_user_may_come_back_in_the_step_of_the_abort_but_after_it():
    """So a guard that compares steps wakes somebody up for nothing."""
    server = Server(gone_since=Third().repair).day([Trip("Zed", 0, [(5, 31)])])
    lines = [(step, what) for step, what, *_ in server.log]
    at = lines.index((36, "aborted"))
    assert lines[at + 1] == (36, "arrives") and not Third().guard(server.log)


def test_the_log_says_who_was_preempted_and_they_are_not_those_who_are_cut():
    server = Server().day()
    preempted = [event.user for event in server.log if event.what == "preempted"]
    assert len(preempted) == server.metrics()["num_preemptions"] == 3
    assert "Finn" in preempted and len(server.received["Finn"]) == LENGTH
    assert "Ben" not in preempted and "Ben" in cut()


def test_the_ticket_of_late_first_tokens_does_not_count_what_was_looked_up():
    """Half of the prompt tokens, so it would point at each second chat."""
    assert "hit rate" in incident(2) and "queries" not in incident(2)


# --- lesson 3 -------------------------------------------------------------------------


def late(office):
    """Numbers of the chats that find less than half of the system prompt."""
    found = enumerate(harbour.found_of_system(office.log))
    return [number for number, lines in found if lines < harbour.SYSTEM / 2]


def minutes_of(what):
    return {one.minute for one in harbour.DAY if one.what == what}


def test_only_another_order_makes_just_the_first_chats_of_a_key_late():
    repaired = harbour.Office(next_victim=OfLesson3().repair).day()
    firsts = [row for row in repaired.log if row.minute in minutes_of("key")]
    assert late(repaired) == [0, *[int(row.name.split()[1]) for row in firsts]]
    assert len(late(harbour.Office().day())) > 3 * len(late(repaired))


def test_between_two_chats_less_is_computed_than_the_pool_holds():
    """So it is not too small, though a larger pool helps; nor do documents fill it."""
    computed, office = [0], harbour.Office().day()
    for row in office.log:
        if row.name.startswith("chat"):
            computed.append(0)
        computed[-1] += row.lines - row.found
    beginning = harbour.SYSTEM + len(minutes_of("notice"))
    assert max(computed) + beginning < harbour.POOL
    assert len(late(harbour.Office(2 * harbour.POOL).day())) < len(late(office)) / 2
    chat_5 = next(row for row in office.log if row.name == "chat 5")
    before = office.log.index(chat_5) - 1
    assert office.log[before - 1].name == "chat 4" and office.log[before - 1].found > 8
    since = sum(row.lines - row.found for row in office.log[before - 1 : before + 1])
    assert since < harbour.POOL / 2
    lost = [row.overwritten for row in office.log if row.minute in (14, 16)]
    assert any(line.startswith("system") for line in lost[0])
    assert any(line.startswith("chat 1,") for line in lost[2])  # was there longer


def test_keys_pairs_and_notices_explain_few_late_chats():
    office = harbour.Office().day()
    chats = [row for row in office.log if row.name.startswith("chat")]
    is_late = [row.found < harbour.SYSTEM / 2 for row in chats]
    late_minutes = {row.minute for row, bad in zip(chats, is_late, strict=True) if bad}
    assert len(late_minutes & minutes_of("key")) == 3 < len(late_minutes) / 3
    for minute in {row.minute for row in chats}:  # both are late, or none
        together = {
            bad for row, bad in zip(chats, is_late, strict=True) if row.minute == minute
        }
        assert len(together) == 1
    for minute in minutes_of("notice") - minutes_of("key"):
        after = next(row for row in chats if row.minute >= minute)
        assert after.found >= harbour.SYSTEM


def test_documents_help_to_make_chats_late_but_not_by_their_length():
    """Without them only keys do; but short ones do as well, and long ones need not."""
    first_of_a_key = {0, 13, 35, 54}
    none = [one for one in harbour.DAY if one.what != "document"]
    assert set(late(harbour.Office().day(none))) == first_of_a_key
    short = [one._replace(num_lines=min(6, one.num_lines)) for one in harbour.DAY]
    assert max(one.num_lines for one in short) == harbour.OWN
    assert len({*late(harbour.Office().day(short))} - first_of_a_key) >= 5
    log = harbour.Office().day().log
    (at,) = (number for number, row in enumerate(log) if row.name == "document 4")
    assert log[at].lines > harbour.OWN and log[at + 1].found > harbour.SYSTEM


def test_a_text_that_is_kept_wholly_is_found_wholly():
    again = [harbour.Event(minute, "chat", "chat 0", 6) for minute in (0, 2, 4)]
    office = harbour.Office().day(again)
    assert [row.found for row in office.log] == [0, 14, 14]


# --- lesson 4 -------------------------------------------------------------------------


def alone(ask, write=studio.write):
    """Lost blocks and copies of a request that has a studio for itself."""
    one = studio.Studio(write=write)
    one.ask(*ask[1:])
    while one.running:
        one.step()
    return studio.POOL - one.num_free, one.pool.num_copies


def test_blocks_are_lost_where_copies_are_made_and_nowhere_else():
    lost = {number: alone(ask) for number, ask in enumerate(studio.DAY)}
    assert all((blocks > 0) == (copies > 0) for blocks, copies in lost.values())
    assert sum(blocks for blocks, _ in lost.values()) == 7
    assert studio.Studio().day().num_free == studio.POOL - 7
    assert studio.Studio(write=OfLesson4().repair).day().num_free == studio.POOL


@pytest.mark.parametrize(
    "suspect",
    [
        lambda ask: ask.leaves and max(ask.samples) > ask.leaves,
        lambda ask: len({*ask.samples}) > 1 and not ask.leaves,
        lambda ask: len(ask.samples) > 1,
        lambda ask: ask.branch,
    ],
)
def test_each_other_suspect_is_in_a_request_that_loses_nothing(suspect):
    losses = [alone(ask)[0] for ask in studio.DAY if suspect(ask)]
    assert 0 in losses and max(losses) > 0


def test_a_branch_loses_a_block_only_where_it_copies():
    assert alone(studio.Ask(0, 8, (9, 9), branch=4)) == (0, 0)  # 8 + 4: full blocks
    assert alone(studio.Ask(0, 8, (9, 9), branch=5)) == (1, 2)


# --- appendix B -----------------------------------------------------------------------


def took(day, chat=3):
    ends = {row.chat: row.step for row in day.log if row.what == "ends"}
    return ends[chat] - kiosk.DAY[chat].step


def test_who_holds_most_is_preempted_and_not_always_who_came_first():
    rows = [row for row in kiosk.Kiosk().day().log if row.what == "is preempted"]
    first = []
    for row in rows:
        blocks = dict(row.running)
        assert blocks[row.chat] == max(blocks.values())
        first.append(row.chat == min(blocks))
    assert 0 < first.count(False) < len(first)


def test_the_line_is_right_and_nobody_passes_who_waits():
    waiting = set()
    for row in kiosk.Kiosk().day().log:
        if row.what in ("arrives", "is preempted"):
            waiting.add(row.chat)
        if row.what == "starts":
            assert row.chat == min(waiting)
            waiting.remove(row.chat)


def test_larger_steps_help_little_and_only_the_repair_helps_in_this_pool():
    broken, large = kiosk.Kiosk().day(), kiosk.Kiosk(budget=1000).day()
    repaired = kiosk.Kiosk(who_must_go=OfAppendixB().repair).day()
    roomy = kiosk.Kiosk(4 * kiosk.POOL).day()
    assert [took(day) for day in (broken, large, repaired, roomy)] == [79, 73, 37, 37]


def test_chat_6_overtakes_chat_3_and_not_after_the_repair():
    broken = kiosk.Kiosk().day()
    repaired = kiosk.Kiosk(who_must_go=OfAppendixB().repair).day()
    assert kiosk.DAY[3][1:] == kiosk.DAY[6][1:]
    ends = [
        [kiosk.DAY[chat].step + took(day, chat) for chat in (3, 6)]
        for day in (broken, repaired)
    ]
    assert ends == [[85, 59], [43, 76]]
    ticket = incident_of("B")
    assert "came 7 steps later" in ticket and "ended 26 steps earlier" in ticket
    given_back = [
        [row.blocks for row in day.log if row.what == "is preempted"]
        for day in (broken, repaired)
    ]
    assert [(len(one), sum(one)) for one in given_back] == [(8, 70), (10, 41)]


def test_a_chat_that_can_never_fit_is_refused_at_once():
    fits = kiosk.Kiosk(8).day([kiosk.Ask(0, 8, 24)])
    assert fits.log[-1].what == "ends"
    with pytest.raises(ValueError, match=r"chat 1 needs 9 blocks .* the pool has 8"):
        kiosk.Kiosk(8).day([kiosk.Ask(0, 8, 8), kiosk.Ask(0, 8, 25)])


def test_the_log_names_those_who_run_in_the_order_of_their_last_start():
    running = []
    for row in kiosk.Kiosk().day().log:
        assert [chat for chat, _ in row.running] == running
        if row.what == "starts":
            running.append(row.chat)
        elif row.what in ("is preempted", "ends"):
            running.remove(row.chat)


# --- the notebooks --------------------------------------------------------------------

INCIDENTS = [
    ("03_prefix_hashing", "incident-ticket", "incident-check", "MyIncident"),
    ("04_cow_beam_search", "incident-ticket", "incident-check", "MyIncident"),
    ("B_preemption", "incident-ticket", "incident-check", "MyIncident"),
    ("G_serving", "ticket-1", "inc1-check", "MyFirst"),
    ("G_serving", "ticket-2", "inc2-check", "MySecond"),
    ("G_serving", "ticket-3", "inc3-check", "MyThird"),
]


@pytest.mark.parametrize(("name", "first", "last", "stub"), INCIDENTS)
def test_an_incident_runs_without_the_cells_above_it(capsys, name, first, last, stub):
    notebook = load(ROOT / "notebooks" / f"{name}.ipynb")
    cells = code_cells(notebook)
    ids = [cell["id"] for cell in cells]
    namespace = {"__name__": "__main__"}
    for cell in cells[ids.index(first) : ids.index(last) + 1]:
        exec(source(cell), namespace)
    assert f"{stub}: not attempted yet" in capsys.readouterr().out
    (exercise,) = (one for one in exercises(notebook) if one.name == stub)
    exec(exercise.solution, namespace)
    exec(source(exercise.check), namespace)
    assert f"{stub}: accepted" in capsys.readouterr().out


def test_the_printed_part_of_the_log_does_not_tell_all_of_ben():
    """What is printed in the notebook: his second line has come before."""
    cells = code_cells(load(ROOT / "notebooks" / "G_serving.ipynb"))
    (shown,) = (cell for cell in cells if cell["id"] == "tunnels")
    said = "".join("".join(one.get("text", "")) for one in shown["outputs"])
    assert "what='aborted', user='Ben'" in said
    assert "what='arrives', user='Ben'" not in said


# --- the check ------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(6))
@pytest.mark.parametrize("letter", "ABCDE")
def test_a_letter_alone_is_never_judged(capsys, number, letter):
    right = (First, Second, Third, OfLesson3, OfLesson4, OfAppendixB)[number]
    names = ("incident_1", "incident_2", "incident_3", "incident_of_lesson_3")
    names += ("incident_of_lesson_4", "incident_of_appendix_b")

    class Guess:
        cause = letter

        def repair(self, *given):
            raise NotImplementedError

        guard = repair

    tried = getattr(check, names[number])
    for attempt in (Guess, with_(right, cause=letter, guard=Guess.guard)):
        tried(attempt)
        assert "not attempted" in capsys.readouterr().out
    tried(with_(right, cause=letter, guard=lambda self, *given: None))
    assert "guard:" in capsys.readouterr().out


def test_eves_log_and_ticket_agree():
    """She comes back after her answer was aborted."""
    own = [event[:2] for event in Server().day().log if event.user == "Eve"]
    assert (50, "aborted") in own and (219, "arrives") in own
    assert "Eve was away for 200 steps" in incident(3)


HINTS = [
    (First, "incident_1", "C"),
    *[(Second, "incident_2", letter) for letter in "ABCE"],
    *[(Third, "incident_3", letter) for letter in "ADE"],
    (OfLesson3, "incident_of_lesson_3", "D"),
    *[(OfLesson4, "incident_of_lesson_4", letter) for letter in "ABDE"],
    (OfAppendixB, "incident_of_appendix_b", "E"),
]


@pytest.mark.parametrize(("right", "name", "letter"), HINTS)
def test_the_code_in_a_hint_runs_as_it_stands(capsys, right, name, letter):
    getattr(check, name)(with_(right, cause=letter))
    said = capsys.readouterr().out
    codes = re.findall("`(.+?)`", said)
    assert f"cause {letter}" in said and codes
    for code in codes:  # the notebook has imported these modules
        eval(code, dict(MODULES))


@pytest.mark.parametrize(
    ("ask", "other", "free"),
    [
        ("8, (9, 9), leaves=4", None, 64),
        ("8, (6, 12)", None, 64),
        ("8, (9, 9)", "7, (9, 9, 9)", 63),
        ("8, (9, 9), branch=4", "8, (9, 9), branch=5", 63),
    ],
)
def test_a_hint_of_lesson_4_shows_that_its_suspect_alone_loses_nothing(
    ask, other, free
):
    def left(ask):
        code = f"studio.Studio().day([studio.Ask(0, {ask})]).num_free"
        return eval(code, {"studio": studio})

    assert left(ask) == studio.POOL
    assert other is None or left(other) == free


def test_a_long_line_of_half_letters_is_cut(capsys):
    check.incident_1(with_(First, repair=lambda self, tokenizer: lambda n, token: "?"))
    short = capsys.readouterr().out
    halves = with_(
        First,
        repair=lambda self, tokenizer: (
            lambda number, token: "\ufffd" * 300 + tokenizer.decode([token])
        ),
    )
    check.incident_1(halves)
    said = capsys.readouterr().out
    assert "one receives" in short and "one receives" in said
    assert 0 < said.count("\ufffd") < 80
