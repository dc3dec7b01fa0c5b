"""The contract of a store beside rows: configuration, incidents, dead letters, leases held by a few at a time.

Part of ``scalable.testing.store.StoreContract``, which is what to run.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from scalable.store import (
    Config,
    ConfigChanged,
    Fate,
    IncidentRow,
    Lease,
    LeaseLostError,
    ReplayOutcome,
    RowError,
    Store,
    StoreError,
    SweepRun,
    SweepStatus,
    Ticket,
    held,
)

Opener = Callable[[], Store]
SHORT_S = 0.2  # a lease that is lost while a test waits for it


def free(holders: list[Lease], before: list[Lease]) -> str:
    """Let everybody in."""
    return ""


def one_at_a_time(holders: list[Lease], before: list[Lease]) -> str:
    """Give one lease at a time, in the order of asking."""
    return f"{(holders or before)[0].name} is first" if holders or before else ""


def two_at_a_time(holders: list[Lease], before: list[Lease]) -> str:
    return "two are in" if len(holders) > 1 else f"{before[0].name} is first" if before else ""


def set_config(store: Store, version: int, token: int | None = None, **base_env: object) -> Config:
    return store.set_config(
        base_env, factor="calibration", variant="isotonic", reason="it won", expect_version=version, token=token
    )


class BesideRowsContract:
    def test_a_store_without_a_configuration_has_version_0_of_it(self, store: Store) -> None:
        assert store.config() == Config()
        assert store.config_history() == []

    def test_a_configuration_comes_back_as_it_was_set(self, store: Store) -> None:
        base_env = {"calibration": "isotonic", "folds": 5, "share": 0.1, "on": True, "list": [1, None, {"ü": "ß"}]}
        written = store.set_config(
            base_env, factor="calibration", variant="isotonic", reason="it won", expect_version=0
        )
        assert store.config() == written
        assert (written.version, written.factor, written.variant) == (1, "calibration", "isotonic")
        assert (written.base_env, written.reason) == (base_env, "it won")
        assert (written.written_at or 0) > 1.6e9

    @pytest.mark.parametrize("variant", [True, 1, 1.5, "1", "true", None])
    def test_a_locked_variant_keeps_its_type(self, store: Store, variant: str | float | None) -> None:
        store.set_config({}, factor="cusum", variant=variant, reason="it won", expect_version=0)
        assert (store.config().variant, type(store.config().variant)) == (variant, type(variant))

    def test_a_change_of_the_configuration_is_undone_by_setting_an_earlier_version_again(self, store: Store) -> None:
        first = set_config(store, 0, a=1)
        set_config(store, 1, a=1, b=2)
        undone = store.set_config(first.base_env, factor=None, variant=None, reason="undone", expect_version=2)
        assert (undone.version, undone.base_env, store.config()) == (3, {"a": 1}, undone)
        assert [each.base_env for each in store.config_history()] == [{"a": 1}, {"a": 1, "b": 2}, {"a": 1}]
        assert store.config_history()[-1] == undone

    def test_who_was_slower_is_told_and_changes_nothing(self, store: Store, open_store: Opener) -> None:
        with open_store() as other:
            set_config(other, 0, a=1)
        with pytest.raises(ConfigChanged, match="version 1 and not 0"):
            set_config(store, 0, a=2)
        with pytest.raises(ConfigChanged):
            set_config(store, 7, a=2)
        assert store.config().base_env == {"a": 1}

    def test_of_many_who_change_one_version_at_once_one_succeeds(self, store: Store) -> None:
        set_config(store, 0)
        succeeded = []

        def change(number: int) -> None:
            try:
                succeeded.append(set_config(store, 1, number=number))
            except ConfigChanged:
                return

        threads = [threading.Thread(target=change, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert [each.version for each in succeeded] == [2]
        assert store.config() == succeeded[0]

    def test_a_configuration_that_cannot_be_stored_is_refused(self, store: Store) -> None:
        unwritable: tuple[tuple[object, str], ...] = (
            ([1], "why"), ({"a": object()}, "why"), ({}, " "),
            ({"a": "\0"}, "why"), ({"a": [{"b": "\ud800"}]}, "why"), ({"\0": 1}, "why"),
        )  # fmt: skip
        for base_env, reason in unwritable:
            with pytest.raises(RowError):
                store.set_config(base_env, factor="f", variant="v", reason=reason, expect_version=0)  # type: ignore[arg-type]
        assert store.config().version == 0

    @pytest.mark.parametrize("value", [1e16, 1e300, -0.0, 0.1, 5e-324, 5.0, 5, 2**80, float("inf"), -float("inf")])
    def test_a_number_of_the_configuration_keeps_its_kind_and_every_digit(self, store: Store, value: float) -> None:
        back = set_config(store, 0, value=value, inside=[{"value": value}]).base_env
        for number in (back["value"], back["inside"][0]["value"]):
            assert (repr(number), type(number)) == (repr(value), type(value))

    def test_a_configuration_that_was_never_set_is_none_to_the_history_also_after_a_sweep(self, store: Store) -> None:
        for status in (SweepStatus.RUNNING, SweepStatus.FINISHED):
            ended = None if status is SweepStatus.RUNNING else 2.0
            store.put_run(SweepRun(id="1", sweep="s", started=1.0, ended=ended, status=status))
        assert (store.config().version, store.config().base_env, store.config_history()) == (0, {}, [])
        assert store.config().written_at is not None
        assert set_config(store, 0, a=1).version == 1
        store.put_run(SweepRun(id="2", sweep="s", started=3.0))
        assert store.config().base_env == {"a": 1}

    def test_incidents_come_back_in_the_order_they_began(self, store: Store) -> None:
        late = IncidentRow(id="run-1/2", kind="stuck", started=20.0, sweep="a", run="x", worker="w", summary={"n": [1]})
        early = IncidentRow(id="run-1/1", kind="oom", started=10.0)
        for incident in (late, early, late):
            assert store.put_incident(incident).fate is Fate.COMMITTED
        assert store.incidents() == [early, late]
        assert store.incidents("a") == [late]

    def test_what_is_learnt_later_of_an_incident_replaces_what_was_known(self, store: Store) -> None:
        for outcome in ("open", "killed and tried again"):
            store.put_incident(IncidentRow(id="1", kind="stuck", started=1.0, summary={"outcome": outcome}))
            time.sleep(0.002)
        assert [each.summary for each in store.incidents()] == [{"outcome": "killed and tried again"}]

    def test_a_store_that_took_everything_has_no_dead_letters(self, store: Store) -> None:
        store.put_run(SweepRun(id="1", sweep="s", started=1.0))
        assert store.dead_letters() == []
        assert store.replay_dead_letters() == ReplayOutcome()
        assert store.drop_dead_letters() == 0
        for use in (store.replay_dead_letters, store.drop_dead_letters):
            with pytest.raises(StoreError, match="'0123'"):
                use(["0123"])

    def test_a_lease_is_asked_for_taken_and_given_back(self, store: Store) -> None:
        leases = store.leases()
        ticket = leases.ask("calibration", "normal", "host:1")
        assert (ticket.token, [each.held for each in leases.list()]) == (None, [False])
        taken = ticket.try_take(one_at_a_time)
        assert isinstance(taken, Lease)
        assert (taken.name, taken.kind, taken.holder, taken.held) == ("calibration", "normal", "host:1", True)
        assert taken.expires - taken.heartbeat == pytest.approx(30.0, abs=1e-3)
        assert leases.list() == [taken]
        assert taken.token is not None
        assert taken.token == ticket.token
        assert store.holds(taken.token)
        assert ticket.beat()
        assert ticket.try_take(free) == leases.list()[0]
        ticket.release()
        ticket.release()
        assert (leases.list(), store.holds(taken.token), ticket.beat()) == ([], False, False)

    def test_leases_are_given_in_the_order_they_were_asked_for(self, store: Store, open_store: Opener) -> None:
        with open_store() as other:
            first, second, third = (each.leases().ask(name, "normal") for each, name in zip(
                (store, other, store), "abc", strict=True))  # fmt: skip
            assert second.try_take(one_at_a_time) == "a is first"
            assert self.taken(first) and second.try_take(one_at_a_time) == "a is first"
            first.release()
            assert third.try_take(one_at_a_time) == "b is first"
            assert self.taken(second)
            assert [(each.name, each.held) for each in store.leases().list()] == [("b", True), ("c", False)]

    def test_the_rule_is_shown_who_is_in_and_who_waits_before(self, store: Store) -> None:
        line = store.leases()
        tickets = [line.ask(name, kind, "h:1") for name, kind in (("a", "normal"), ("b", "heavy"), ("c", "free"))]
        assert self.taken(tickets[0])
        shown: list[list[tuple[str, str]]] = []

        def look(holders: list[Lease], before: list[Lease]) -> str:
            shown.extend([(each.name, each.kind) for each in group] for group in (holders, before))
            return "not yet"

        assert tickets[2].try_take(look) == "not yet"
        assert shown == [[("a", "normal")], [("b", "heavy")]]

    def test_a_rule_that_fails_leaves_everything_as_it_was(self, store: Store) -> None:
        ticket = store.leases().ask("a", "normal")

        def fail(holders: list[Lease], before: list[Lease]) -> str:
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            ticket.try_take(fail)
        assert [each.held for each in store.leases().list()] == [False]
        assert self.taken(ticket)

    def test_every_taking_has_a_higher_token_than_all_before_it(self, store: Store) -> None:
        tokens: list[int] = []
        for _ in range(3):
            ticket = store.leases().ask("a", "normal")
            ticket.try_take(one_at_a_time)
            tokens.append(ticket.token or 0)
            ticket.release()
        assert tokens == sorted(set(tokens))
        assert tokens[0] > 0

    def test_who_is_not_heard_of_loses_its_lease_to_who_asks(self, store: Store, open_store: Opener) -> None:
        lost = store.leases(SHORT_S).ask("dead", "normal")
        assert self.taken(lost)
        waiter = store.leases(SHORT_S).ask("dead too", "normal")
        assert waiter.token is None
        token = lost.token
        assert token
        with open_store() as other:
            heir = other.leases().ask("heir", "normal")
            self.take_in_time(heir)
            assert not store.holds(token)
            assert not lost.beat()
            assert [each.name for each in other.leases().list()] == ["heir"]
            assert lost.try_take(one_at_a_time) == "heir is first"

    def test_a_heartbeat_keeps_a_lease(self, store: Store) -> None:
        ticket = store.leases().ask("alive", "normal")
        rival = store.leases().ask("rival", "normal")
        assert self.taken(ticket)
        [before] = [lease for lease in store.leases().list() if lease.held]
        time.sleep(0.01)
        assert ticket.beat()
        [after] = [lease for lease in store.leases().list() if lease.held]
        assert after.expires > before.expires
        assert after.expires - after.heartbeat == pytest.approx(before.expires - before.heartbeat, abs=1e-3)
        assert rival.try_take(one_at_a_time) == "alive is first"

    def test_a_job_is_leased_by_one_run_at_a_time(self, store: Store, open_store: Opener) -> None:
        first = store.work_leases("run-1")
        assert first.take(["a", "b"]).own == {"a", "b"}
        with open_store() as other:
            second = other.work_leases("run-2")
            taken = second.take(["b", "c"])
            assert taken.own == {"c"} and taken.others == {"a", "b"} and not taken.lost
            assert first.held_by_others() == {"c"} and second.held_by_others() == {"a", "b"}
            assert first.living() == {"run-2"} and second.living() == {"run-1"}
            first.take(done=["b"])
            assert second.take(["b"]).own == {"b"}
            first.release()
            first.release()
            assert (second.held_by_others(), second.living()) == (frozenset(), frozenset())
            assert not first.beat() and second.beat()
            assert not first.take(["d"]).own and not second.living()

    def test_leases_on_jobs_are_no_slots(self, store: Store) -> None:
        store.work_leases("run-1").take(["a"])
        assert store.leases().list() == []
        assert self.taken(store.leases().ask("s", "normal"))

    def test_a_run_that_is_not_heard_of_loses_its_jobs_and_hears_of_it(self, store: Store, open_store: Opener) -> None:
        silent = store.work_leases("run-1", SHORT_S)
        silent.take(["a"])
        with open_store() as other:
            heir = other.work_leases("run-2")
            until = time.monotonic() + 20 * SHORT_S
            while not heir.take(["a"]).own and time.monotonic() < until:
                time.sleep(SHORT_S / 4)
            assert not silent.beat()
            again = silent.take(["a", "b"])
            assert again.own == {"b"} and again.others == {"a"} and again.lost

    def test_a_run_keeps_jobs_past_their_expiry_if_nobody_asked_for_them(self, store: Store) -> None:
        late = store.work_leases("run-1", SHORT_S / 10)
        late.take(["a"])
        time.sleep(SHORT_S / 5)
        assert not late.take(["b"]).lost and late.beat()

    def test_a_heartbeat_keeps_the_jobs_of_a_run(self, store: Store, open_store: Opener) -> None:
        run = store.work_leases("run-1", SHORT_S)
        run.take(["a"])
        with open_store() as other:
            for _ in range(2):
                time.sleep(0.6 * SHORT_S)
                last = time.monotonic()
                assert run.beat()
            own = other.work_leases("run-2").take(["a"]).own
            assert not own or time.monotonic() - last > SHORT_S

    def test_who_lost_its_lease_cannot_write_as_if_it_had_it(self, store: Store) -> None:
        ticket = store.leases().ask("a", "normal")
        assert self.taken(ticket)
        token = ticket.token
        assert store.put_run(SweepRun(id="1", sweep="a", started=1.0), token=token).fate is Fate.COMMITTED
        assert set_config(store, 0, token=token, a=1).version == 1
        ticket.release()
        with pytest.raises(LeaseLostError):
            store.put_run(SweepRun(id="2", sweep="a", started=1.0), token=token)
        with pytest.raises(LeaseLostError):
            set_config(store, 1, token=token, a=2)
        assert [run.id for run in store.runs()] == ["1"]
        assert store.config().version == 1

    def test_never_more_are_in_than_the_rule_allows_however_many_ask_at_once(self, store: Store) -> None:
        most = []

        def work(name: str) -> None:
            ticket = store.leases().ask(name, "normal")
            self.take_in_time(ticket, two_at_a_time)
            most.append(sum(each.held for each in store.leases().list()))
            ticket.release()

        threads = [threading.Thread(target=work, args=(str(number),)) for number in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert len(most) == 5
        assert max(most) <= 2

    def test_who_asks_for_the_same_holder_shares_its_lease(self, store: Store, open_store: Opener) -> None:
        with open_store() as other:
            first = store.leases().ask("a", "normal", "together", shared=True)
            second = other.leases().ask("a", "normal", "together", shared=True)
            rival = other.leases().ask("a", "normal", "somebody else", shared=True)
            assert self.taken(second) and self.taken(first)
            assert first.token == second.token
            assert rival.try_take(one_at_a_time) == "a is first"
            assert [(each.holder, each.held) for each in store.leases().list()] == [
                ("together", True), ("somebody else", False),
            ]  # fmt: skip
            second.release()
            assert not first.beat()
            assert self.taken(rival)

    def test_a_shared_lease_is_kept_by_the_heartbeat_of_any_and_lost_when_all_are_silent(self, store: Store) -> None:
        first = store.leases().ask("a", "normal", "together", shared=True)
        assert self.taken(first)
        [before] = store.leases().list()
        second = store.leases().ask("a", "normal", "together", shared=True)
        assert second.token == first.token
        time.sleep(0.01)
        assert second.beat()
        [after] = store.leases().list()
        assert after.expires > before.expires
        rival = store.leases().ask("b", "normal")
        assert rival.try_take(one_at_a_time) == "a is first"
        store.leases(SHORT_S).ask("a", "normal", "together", shared=True)  # nobody is heard of after this one
        self.take_in_time(rival)
        assert not second.beat()
        assert [ticket.try_take(one_at_a_time) for ticket in (first, second)] == ["b is first"] * 2
        assert [each.name for each in store.leases().list()] == ["b", "a"]

    def test_a_lease_that_is_held_as_a_claim_is_the_only_one_of_its_name(self, store: Store) -> None:
        with held(store.leases().ask("a", "job")) as taken:
            other, rival = (store.leases().ask(name, "job") for name in "ba")
            assert (taken, other.take(), rival.take()) == (True, True, False)
        assert rival.take()

    def test_a_lease_needs_a_name_and_a_kind(self, store: Store) -> None:
        for name, kind in (("", "normal"), ("a", ""), ("a\0", "normal"), ("a" * 2000, "normal")):
            with pytest.raises(RowError):
                store.leases().ask(name, kind)
        assert store.leases().list() == []

    @staticmethod
    def taken(ticket: Ticket) -> bool:
        return isinstance(ticket.try_take(one_at_a_time), Lease)

    @staticmethod
    def take_in_time(ticket: Ticket, rule: Callable[[list[Lease], list[Lease]], str] = one_at_a_time) -> None:
        until = time.monotonic() + 60
        while not isinstance(answer := ticket.try_take(rule), Lease):
            assert time.monotonic() < until, answer
            time.sleep(0.01)
