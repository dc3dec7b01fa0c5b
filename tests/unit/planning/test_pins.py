"""What a rollback holds fast: sizes and numbers of an earlier plan, within what the manifest allows today."""

from __future__ import annotations

from typing import Any

import pytest

from scalable.errors import PlanningError
from scalable.manifest import load_text
from scalable.planning.campaign import plan_all
from scalable.planning.components import plan_components
from scalable.planning.front import Choice
from scalable.planning.pins import Pin, sizes_of
from scalable.planning.plan import Plan, plan_sweep
from scalable.planning.site import Site
from tests.helpers.planning.builders import MACHINE, Change, a_site

SMALL = {"request": {"cpu": 1, "memory": "1GiB", "gpus": 0}, "limit": {"cpu": 2, "memory": "4GiB", "gpus": 0}}
COMPONENTS = """
version: 1
project: {name: lab}
targets: {here: {provider: local, max_workers: 4}}
components: {model: {cpus: 2, memory: 2GiB}, report: {}}
"""


def a_pin(workers: int = 3, sweep: str = "calibration", **sizes: Any) -> Pin:
    return Pin.from_plan("run-1", {"workers_by_tag": {"standard": workers}, "sizes": sizes, "sweep": sweep})


def pinned(pin: Pin, *changes: Change) -> Site:
    site = a_site(*changes)
    return Site(pin.applied(site.manifest), None, MACHINE, pin)


def plan(pin: Pin, sweep: str = "calibration") -> Plan:
    return plan_sweep(pinned(pin), sweep, Choice("minimize time"))


def test_a_pinned_sweep_has_the_number_and_size_of_workers_of_before_and_says_why() -> None:
    found = plan(a_pin(3, standard=SMALL))
    assert (found.workers, found.resources.cpus, found.resources.memory) == (3, 2, "4GiB")
    assert found.assumptions[0] == "pinned by rollback to run-1; scalable ops rollback --undo  lifts it"
    assert found.pinned == found.to_dict()["pinned"] == "run-1"


def test_another_sweep_has_the_sizes_but_its_own_number() -> None:
    free = plan_sweep(a_site(), "timeframe", Choice("minimize time"))
    found = plan(a_pin(3), "timeframe")
    assert (found.workers, found.pinned) == (free.workers, "")


def test_more_workers_than_can_be_used_now_are_cut_and_it_is_said() -> None:
    found = plan(a_pin(1000))
    assert found.workers < 1000
    (cut,) = [finding for finding in found.warnings if finding.code == "workers-cut"]
    assert "1000 workers are pinned" in cut.message and str(found.workers) in cut.message


def test_a_pin_of_everything_holds_for_every_sweep_of_that_size() -> None:
    pin = a_pin(2, sweep="")
    together = plan_all(pinned(pin))
    assert together.workers_by_tag["standard"] == 2
    assert together.notes[0] == pin.note
    assert together.to_dict()["pinned"] == "run-1"


def test_sizes_of_the_manifest_go_into_a_pin_and_come_back_unchanged() -> None:
    manifest = a_site().manifest
    pin = Pin.from_plan("run-1", {"workers_by_tag": {"standard": 1}, "sizes": sizes_of(manifest), "sweep": "none"})
    assert pin.applied(manifest) == manifest


def components(pin: Pin | None, **changes: str) -> Site:
    text = COMPONENTS
    for old, new in changes.items():
        text = text.replace(old.replace("_", " "), new)
    manifest = load_text(text, env={}).manifest
    return Site(pin.applied(manifest) if pin else manifest, "here", MACHINE, pin)


def of_components(**workers: int) -> Pin:
    sizes = {"model": {"cpus": 1, "memory": "1GiB", "gpus": 0}, "gone": {"cpus": 1, "memory": None, "gpus": 0}}
    return Pin.from_plan("run-1", {"workers_by_tag": workers, "sizes": sizes, "sweep": ""})


def test_components_have_the_pinned_sizes_and_numbers_and_new_ones_a_worker() -> None:
    found = plan_components(components(of_components(model=2, gone=7)), "here")
    assert found.scale_plan.workers_by_tag == {"model": 2, "report": 1}
    assert found.scale_plan.resources_by_tag["model"].memory == "1GiB"
    assert found.assumptions[0].startswith("pinned by rollback to run-1")
    assert found.to_dict()["pinned"] == "run-1"


def test_where_fewer_workers_are_allowed_now_the_largest_number_is_cut() -> None:
    found = plan_components(components(of_components(model=5, report=1)), "here")
    assert found.scale_plan.workers_by_tag == {"model": 3, "report": 1}


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        ({}, "run-1 has no plan that could be applied again"),
        ({"workers_by_tag": {"standard": -1}}, "no plan that could be applied"),
        ({"workers_by_tag": {"standard": 1}}, "an older version ran it"),
        ({"workers_by_tag": {"standard": 1}, "sizes": {"standard": 5}, "sweep": ""}, "5 is no size of standard"),
        ({"workers_by_tag": {"a": 1}, "sizes": {"a": {"limit": {"cpu": -1}}}, "sweep": ""}, "is no size of a"),
        ({"workers_by_tag": {"a": 1}, "sizes": {"a": {"cpus": "many"}}, "sweep": ""}, "is no size of a"),
    ],
)
def test_a_plan_that_cannot_be_applied_again_is_refused(plan: dict[str, Any], words: str) -> None:
    with pytest.raises(PlanningError, match=words):
        Pin.from_plan("run-1", plan)
