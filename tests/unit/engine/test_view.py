"""What others may read of an engine."""

from __future__ import annotations

import ast

from scalable.engine.events import Paused, RowPersisted
from tests.helpers.engine.builders import a_world
from tests.helpers.paths import ROOT

SOURCES = ROOT / "src" / "scalable"


def lines_that_read_the_state(source: str) -> list[int]:
    """Return the lines that name ``engine.state``, the view's own reference to it, or the module of the records."""
    lines = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            names = {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
            if "scalable.engine.state" in names:
                lines.append(node.lineno)
        elif isinstance(node, ast.Attribute):
            owner = node.value
            name = owner.attr if isinstance(owner, ast.Attribute) else owner.id if isinstance(owner, ast.Name) else ""
            if (name, node.attr) in (("engine", "state"), ("engine", "_state"), ("view", "_state")):
                lines.append(node.lineno)
    return sorted(lines)


def test_a_module_that_reads_the_state_is_noticed() -> None:
    source = "from scalable.engine import state\nself.driver.engine.state.paused\nengine.view\nengine.view._state\n"
    assert lines_that_read_the_state(source) == [1, 2, 4]


def test_nobody_outside_the_engine_reads_its_state() -> None:
    others = [path for path in SOURCES.rglob("*.py") if not path.is_relative_to(SOURCES / "engine")]
    assert len(others) > 100
    found = {str(path): lines for path in others if (lines := lines_that_read_the_state(path.read_text()))}
    assert found == {}


def test_the_view_shows_the_engine_as_it_is_now() -> None:
    world = a_world()
    view = world.engine.view
    world.with_sweep("s", 3).with_workers(1)
    world.happens(Paused("lunch"))
    assert view.paused == "lunch"
    assert set(view.runs) == {"s/1", "s/2", "s/3"}
    assert view.runs["s/1"].worker in view.workers
    assert (view.tags["standard"].workers, view.tags["standard"].queued) == (1, 2)


def test_silence_is_counted_from_the_last_sign_or_row() -> None:
    world = a_world().with_sweep("s").with_workers(1)
    world.passes(100)
    assert world.engine.view.silence_s("s/1") == 100
    world.happens(RowPersisted("w1"))
    world.passes(20)
    assert world.engine.view.silence_s("s/1") == 20
