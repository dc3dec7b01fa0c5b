"""The store on a database: reads go to it directly, writes through one thread and the outbox."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from scalable.store.database import Configs, Database, checked_config
from scalable.store.decisions import DecisionRow
from scalable.store.errors import LeaseLostError, RowError, StoreError
from scalable.store.interface import ALL, Config, DeadLetter, Fate, Filter, Receipt, ReplayOutcome
from scalable.store.leases import TTL_S
from scalable.store.leases.database import SqlLeases
from scalable.store.leases.work import SqlWorkLeases
from scalable.store.ledger import Ledger
from scalable.store.outbox import Entry, Stored
from scalable.store.rows import AttemptRow, IncidentRow, Row, RowStatus, SweepRun
from scalable.store.urls import Location
from scalable.store.writer import Pipeline, Writer


class SqlStore:
    """See ``Store`` for what each method promises, ``open_store`` for the arguments."""

    def __init__(self, location: Location, patience_s: float, ask_again_s: float) -> None:
        self._process = os.getpid()
        self._closed = False
        self._database = Database(location, patience_s)
        self._pipeline = Pipeline(self._database, location.beside)
        self._writer = Writer(self._pipeline, ask_again_s)
        self.recovery = self._pipeline.recover()
        if self.waiting:
            self._writer.submit([])  # has the database asked again

    @property
    def waiting(self) -> int:
        return self._pipeline.waiting

    def put(self, rows: Iterable[Row]) -> Receipt:
        return self._wait(self.submit(rows))

    def submit(self, rows: Iterable[Row]) -> Future[Receipt]:
        if isinstance(rows, Row):
            raise RowError("put and submit take several rows; write [row] for one")
        return self._submit(rows, Row)

    def mark_failed(self, keys: Iterable[str], reason: str) -> int:
        if isinstance(keys, str):
            raise RowError("mark_failed takes several keys; write [key] for one")
        if not isinstance(reason, str) or not reason.strip():
            raise RowError("mark_failed needs a reason that a person can read later")
        unmarked = [row for row in self.find(keys).values() if not row.marked]
        changes: dict[str, Any] = {"run_status": RowStatus.FAILED, "marked": True, "error": reason, "written_at": None}
        receipt = self.put([replace(row, **changes) for row in unmarked])
        if not receipt.safe:
            raise StoreError(f"nothing was marked: {receipt.reason}")
        return len(unmarked)

    def submit_attempts(self, attempts: Iterable[AttemptRow]) -> Future[Receipt]:
        return self._submit(attempts, AttemptRow)

    def attempts(self, keys: Iterable[str]) -> dict[str, list[AttemptRow]]:
        self._check_open()
        return self._database.attempts(keys)

    def put_run(self, run: SweepRun, *, token: int | None = None) -> Receipt:
        if token is not None:
            self._database.still(token)
        receipt = self._wait(self._submit([run], SweepRun, token))
        if token is not None and receipt.fate is Fate.SET_ASIDE and not self.holds(token):  # lost in between
            raise LeaseLostError(receipt.reason)
        return receipt

    def put_incident(self, incident: IncidentRow) -> Receipt:
        return self._wait(self._submit([incident], IncidentRow))

    def incidents(self, sweep: str | None = None) -> list[IncidentRow]:
        self._check_open()
        return self._database.incidents(sweep)

    def replay(self) -> Receipt:
        return self._wait(self._submit([], Row))

    def keys(self, wanted: Filter = ALL) -> set[str]:
        self._check_open()
        return self._database.keys(wanted)

    def rows(self, wanted: Filter = ALL) -> Iterator[Row]:
        self._check_open()
        return self._database.rows(wanted)

    def get(self, run_key: str) -> Row | None:
        self._check_open()
        return self._database.get(run_key)

    def find(self, keys: Iterable[str]) -> dict[str, Row]:
        self._check_open()
        if isinstance(keys, str):
            raise RowError("find takes several keys; write [key] for one")
        return self._database.find(keys)

    def config(self) -> Config:
        self._check_open()
        return Configs(self._database).current()

    def set_config(
        self,
        base_env: Mapping[str, Any],
        *,
        factor: str | None,
        variant: str | float | bool | None,
        reason: str,
        expect_version: int,
        token: int | None = None,
    ) -> Config:
        self._check_open()
        wanted = checked_config(base_env, factor, variant, reason)
        return Configs(self._database).set(wanted, expect_version, time.time(), token)

    def config_history(self) -> list[Config]:
        self._check_open()
        return Configs(self._database).history()

    def record_decision(self, decision: DecisionRow) -> DecisionRow:
        self._check_open()
        if not isinstance(decision, DecisionRow):
            raise RowError(f"a {type(decision).__name__} is not a DecisionRow; make one of it first")
        return Ledger(self._database).record(decision)

    def ledger(self, sweep: str | None = None) -> list[DecisionRow]:
        self._check_open()
        return Ledger(self._database).entries(sweep)

    def dead_letters(self) -> list[DeadLetter]:
        self._check_open()
        return list(self._pipeline.letters.list())

    def replay_dead_letters(self, ids: Iterable[str] | None = None) -> ReplayOutcome:
        self._check_open()
        return self._pipeline.letters.replay(None if ids is None else list(ids))

    def drop_dead_letters(self, ids: Iterable[str] | None = None) -> int:
        self._check_open()
        return self._pipeline.letters.drop(None if ids is None else list(ids))

    def leases(self, ttl_s: float = TTL_S) -> SqlLeases:
        self._check_open()
        return SqlLeases(self._database, ttl_s)

    def work_leases(self, run_id: str, ttl_s: float = TTL_S) -> SqlWorkLeases:
        return SqlWorkLeases(self.leases(ttl_s), run_id)

    def holds(self, token: int) -> bool:
        return self.leases().holds(token)

    def runs(self, sweep: str | None = None) -> list[SweepRun]:
        self._check_open()
        return self._database.runs(sweep)

    def close(self) -> None:
        if self._closed or self._process != os.getpid():
            return
        self._closed = True
        self._writer.close()
        self._pipeline.close()
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _submit(self, records: Iterable[Stored], kind: type[Stored], token: int | None = None) -> Future[Receipt]:
        self._check_open()
        now = time.time()
        entries = []
        for record in records:
            if not isinstance(record, kind):
                raise RowError(f"a {type(record).__name__} is not a {kind.__name__}; make one of it first")
            entries.append(Entry.of(record, now, token))
        return self._writer.submit(entries)

    def _wait(self, receipt: Future[Receipt]) -> Receipt:
        if self._writer.is_current_thread():
            raise StoreError("a receipt's callback cannot wait for the store; call submit in it")
        return receipt.result()

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError("the store is closed; open it again to use it")
        if self._process != os.getpid():
            raise StoreError("the store was opened in another process; open it in this one")
