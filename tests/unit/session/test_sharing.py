"""Which jobs a run leases when, and what follows from the answers; time is a number."""

from __future__ import annotations

from scalable.session.sweep.sharing import AHEAD_S, MOST_AHEAD, UNUSED_S, Division


def jobs(count: int, group: str = "") -> dict[str, str]:
    return {f"{group}{number}": group for number in range(count)}


def ask(division: Division, now: float, *, held: tuple[str, ...] = (), done: tuple[str, ...] = ()) -> list[str]:
    """Ask the store, which other runs have these jobs of; return what was asked for."""
    asked = division.question(now)
    division.answer(asked, [job for job in asked if job not in held], done, now)
    return asked


def test_a_long_job_is_leased_alone_when_it_starts() -> None:
    division = Division(jobs(10), 0.0)
    assert not division.due
    assert not division.start("0")
    assert division.due
    assert ask(division, 0.001) == ["0"]
    assert division.start("0"), "a retry needs no other lease"
    assert not division.start("1")
    assert ask(division, 60.0) == ["1"]


def test_short_jobs_are_leased_ahead_about_a_second_of_them() -> None:
    division = Division(jobs(1000), 0.0)
    for number in range(100):
        division.start(str(number))
    assert len(ask(division, AHEAD_S)) == 200
    assert not division.due
    assert division.start("150")
    for number in range(100, 152):
        division.start(str(number))
    assert division.due, "half of what was leased ahead is used"


def test_no_question_is_longer_than_the_most() -> None:
    division = Division(jobs(10 * MOST_AHEAD), 0.0)
    for number in range(5 * MOST_AHEAD):
        division.start(str(number))
    division.answer(division.question(AHEAD_S), [], (), AHEAD_S)
    assert division.ahead == MOST_AHEAD


def test_jobs_are_leased_ahead_in_the_groups_that_are_served() -> None:
    division = Division({**jobs(50, "a"), **jobs(50, "b"), **jobs(50, "c")}, 0.0)
    for number in range(10):
        division.start(f"a{number}")
        division.start(f"c{number}")
    asked = ask(division, AHEAD_S)
    assert {job[0] for job in asked} == {"a", "c"} and len(asked) == 40


def test_what_another_run_has_is_set_aside_and_what_it_has_done_is_over() -> None:
    division = Division(jobs(3), 0.0)
    for job in "012":
        division.start(job)
    asked = division.question(0.1)
    answer = division.answer(asked, ["0", "2"], ["2"], 0.1)
    assert (answer.own, answer.elsewhere, answer.done) == (["0"], ["1"], ["2"])
    assert division.elsewhere() == ["1"]
    assert division.leased() == ["0"]
    assert division.over == ["2"], "its lease is given back"


def test_a_job_that_comes_back_is_asked_for_again() -> None:
    division = Division(jobs(1), 0.0)
    division.start("0")
    ask(division, 0.1, held=("0",))
    division.give_up("0")
    assert division.elsewhere() == []
    assert not division.start("0")
    assert ask(division, 5.0) == ["0"]


def test_a_store_that_does_not_answer_is_asked_for_the_same_jobs_again() -> None:
    division = Division(jobs(3), 0.0)
    division.start("1")
    division.unanswered(division.question(0.1))
    assert division.due
    assert ask(division, 1.0) == ["1"]


def test_jobs_that_do_not_start_in_time_are_left_to_others() -> None:
    division = Division(jobs(100), 0.0)
    for number in range(20):
        division.start(str(number))
    ask(division, AHEAD_S)
    assert division.unused(AHEAD_S + UNUSED_S) == []
    unused = division.unused(AHEAD_S + UNUSED_S + 0.1)
    assert len(unused) == 20
    division.leave(unused)
    assert division.over == unused
    assert division.unused(1000.0) == []


def test_a_lease_is_given_back_once() -> None:
    division = Division(jobs(1), 0.0)
    division.start("0")
    ask(division, 0.1)
    division.finish("0")
    division.finish("0")
    assert division.over == ["0"]


def test_a_job_that_ended_before_the_answer_is_given_back() -> None:
    division = Division(jobs(2), 0.0)
    division.start("0")
    division.start("1")
    division.finish("0", leased=False)
    assert (asked := division.question(0.1)) == ["1"]
    division.finish("1", leased=False)
    assert division.answer(asked, ["1"], (), 0.1).own == []
    assert (division.over, division.leased(), division.due) == (["1"], [], False)


def test_the_store_is_not_asked_when_nothing_is_left_to_lease() -> None:
    division = Division(jobs(20), 0.0)
    for number in range(20):
        division.start(str(number))
    ask(division, AHEAD_S)
    assert division.ahead > len(division.reserve)
    assert not division.due
