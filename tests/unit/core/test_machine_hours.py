"""Amounts of an allocation: what people write, and what is refused with what to write instead."""

from __future__ import annotations

from decimal import Decimal

import pytest

from scalable.errors import QuantityError
from scalable.machine_hours import CORE_HOURS, GPU_HOURS, NODE_HOURS, HeldResources, MachineHours


@pytest.mark.parametrize(
    ("written", "amount", "unit"),
    [
        ("50000 core-hours", "50000", CORE_HOURS),
        ("50,000 core hours", "50000", CORE_HOURS),
        ("1 node-hour", "1", NODE_HOURS),
        ("12.5 GPU-hours", "12.5", GPU_HOURS),
    ],
)
def test_what_people_write_is_understood(written: str, amount: str, unit: str) -> None:
    assert MachineHours.parse(written) == MachineHours(Decimal(amount), unit)


def test_what_is_printed_reads_back() -> None:
    for text in ("50000 core-hours", "0.125 gpu-hours", "12.5 node-hours"):
        assert str(MachineHours.parse(text)) == text


@pytest.mark.parametrize(
    "written", [50000, "50000", "-5 core-hours", "many core-hours", "1.2.3 core-hours", None, "5,00 core-hours"]
)
def test_what_is_no_amount_is_refused_with_an_example(written: object) -> None:
    with pytest.raises(QuantityError) as refused:
        MachineHours.parse(written)
    assert "core-hours" in refused.value.remedy


@pytest.mark.parametrize("unit", ["cpu-hours", "euros", "core-minutes", "hours"])
def test_a_wrong_unit_is_answered_with_the_right_ones(unit: str) -> None:
    with pytest.raises(QuantityError) as refused:
        MachineHours.parse(f"500 {unit}")
    assert unit in refused.value.message
    assert refused.value.remedy == "write core-hours, node-hours or gpu-hours, e.g. 500 core-hours"


def test_units_never_mix() -> None:
    with pytest.raises(QuantityError, match="different units"):
        MachineHours.parse("1 core-hours") + MachineHours.parse("1 gpu-hours")


def test_an_exclusive_node_of_48_cores_with_4_gpus_uses_24_core_hours_in_half_an_hour() -> None:
    used = HeldResources(cores=48, nodes=1, gpus=4).for_seconds(1800)
    assert used.to_dict() == {CORE_HOURS: 24.0, NODE_HOURS: 0.5, GPU_HOURS: 2.0}
    assert HeldResources.from_dict(used.to_dict()) == used
