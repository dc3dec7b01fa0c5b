"""The example manifest as a site, with parts of its text replaced where a test asks for that."""

from __future__ import annotations

from functools import cache

from scalable.manifest import load_text
from scalable.planning.plan import Plan
from scalable.planning.site import Machine, Site
from scalable.quantities import Cpu, Memory
from tests.helpers.paths import ROOT

EXAMPLE = ROOT / "examples/ftf/scalable.yaml"
MACHINE = Machine(Cpu.of(16), Memory.of_gib(64))

Change = tuple[str, str]


@cache
def example() -> str:
    return EXAMPLE.read_text(encoding="utf-8")


def a_site(*changes: Change, target: str | None = None, machine: Machine = MACHINE) -> Site:
    """The pools of the example, whatever its targets; with a target, work runs there."""
    text = example()
    for old, new in changes:
        assert old in text, f"the example no longer says {old!r}"
        text = text.replace(old, new, 1)
    return Site(load_text(text, env={}, target=target).manifest, target, machine)


def with_few_sweeps(site: Site) -> Site:
    """Leave one sweep of each kind, normal and heavy: the others are planned like the first, and take as long."""
    for name in set(site.manifest.sweeps) - {"calibration", "n_features"}:
        del site.manifest.sweeps[name]
    return site


def with_sweep(text: str) -> Change:
    """One more sweep, as a line of the manifest."""
    return ("\nworkloads:", f"  {text}\n\nworkloads:")


def gib(number: float) -> Memory:
    return Memory.of_gib(number)


def codes(plan: Plan) -> set[str]:
    """Return the codes of what the plan warns of."""
    return {finding.code for finding in plan.warnings}
