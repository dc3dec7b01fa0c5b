"""The bill of a run: every machine is paid, every row has its part, and together that is the bill to the last digit."""

from __future__ import annotations

from typing import Any

from tests.helpers.observe.builders import (
    START,
    Record,
    record,
)

NODE_PRICE = "3600"  # one euro a second: amounts are seconds


def tariff(basis: str = "nodes as observed", currency: str = "EUR", **fields: Any) -> Record:
    return record("tariff", 0, basis=basis, currency=currency, **fields)


def machine(
    name: str = "n1", since: float = 0.0, until: float | None = None, *, pool: str = "compute",
    price: str = NODE_PRICE, tail_s: float = 0.0, up: float | None = None,
) -> Record:  # fmt: skip
    gone = START + until if until is not None else None
    appeared = {"up": START + up} if up is not None else {}
    return record(
        "machine", since, machine=name, pool=pool, price=price, since=START + since, until=gone, tail_s=tail_s,
        **appeared,
    )  # fmt: skip


def placed(worker: str = "w1", on: str = "n1", part: float = 1.0, slots: int = 1) -> Record:
    return record("placed", 1, worker=worker, tag="demeter", machine=on, part=part, slots=slots)
