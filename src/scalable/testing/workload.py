"""What every workload must do, as tests that anyone can run against their own.

    class TestMyWorkload(WorkloadContract):
        @pytest.fixture
        def plugin(self):
            return PLUGIN  # a WorkloadPlugin

        @pytest.fixture
        def sweep(self):
            return {"workload": "mine", "compare": …, "over": …}  # a small one, as a manifest has it

``changed`` is a mapping with another value of one setting; ``short`` is a sweep in the plug-in's short form. Both may
be left out. pytest shows the values of a failed assertion after
``pytest.register_assert_rewrite("scalable.testing.workload")``.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Mapping
from copy import deepcopy
from math import isfinite
from typing import Any

import pytest

from scalable.manifest.models import Manifest, Project, with_shipped
from scalable.manifest.work import Sweep
from scalable.plugins import WorkloadPlugin, installed
from scalable.store.caching import key_of
from scalable.sweeps.compiling import Compiled, compiled
from scalable.sweeps.workload import Keys, Workload, find_workload

WITHIN_S = 120.0  # for a process that imports the workload and makes the keys of one row
KEYS_ELSEWHERE = """
import pickle, sys
from scalable.sweeps.workload import Keys, find_workload
path, configuration = pickle.load(sys.stdin.buffer)
print(Keys(find_workload(path)).of(configuration))
"""


class WorkloadContract:
    """A workload declares what it varies and measures, and its rows follow from that alone."""

    @pytest.fixture
    def changed(self) -> Mapping[str, Any]:
        """A value of one setting that differs from the sweep's."""
        return {}

    @pytest.fixture
    def short(self) -> Mapping[str, Any] | None:
        """A sweep in the plug-in's short form."""
        return None

    @pytest.fixture
    def made(self, plugin: WorkloadPlugin, sweep: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch) -> Compiled:
        """The sweep with the keys of all its rows. The plug-in need not be installed."""
        monkeypatch.setitem(installed(), plugin.name, plugin)
        return a_sweep(sweep)

    @pytest.fixture
    def workload(self, plugin: WorkloadPlugin) -> Workload:
        return find_workload(plugin.run)

    def test_its_metrics_are_declared_once_and_the_primary_is_one_of_them(self, plugin: WorkloadPlugin) -> None:
        names = [metric.name for metric in plugin.metrics]
        assert names, "declare metrics: a verdict rests on them"
        assert len(names) == len(set(names)), f"a metric is declared twice: {names}"
        assert plugin.decides in names, f"primary: {plugin.decides!r} is none of {names}"
        for name in plugin.guards:
            assert name in names, f"guards: {name!r} is none of {names}"

    def test_its_factors_have_variants_and_stages_that_read_them(
        self, plugin: WorkloadPlugin, workload: Workload
    ) -> None:
        for name, factor in plugin.factors.items():
            assert name == factor.name, f"factors: {name!r} is called {factor.name!r}"
            assert len(set(map(repr, factor.variants))) == len(factor.variants) > 1, f"{name}: {factor.variants}"
            assert name in workload.reads, f"no stage reads the factor {name}; its variants would all be alike"
        if plugin.cost is not None:
            assert plugin.cost.setting in workload.reads, f"no stage reads {plugin.cost.setting}, which cost follows"

    def test_its_axes_are_read_by_its_stages(self, made: Compiled) -> None:
        for name in made.grid.names:
            assert name in made.workload.reads, f"no stage reads the axis {name}; its rows would all be alike"

    def test_rows_have_all_metrics_and_all_are_finite(self, plugin: WorkloadPlugin, made: Compiled) -> None:
        row = results_of(made)[made.workload.row.name]
        assert isinstance(row, Mapping), f"the last stage returns {type(row).__name__}; return metrics by name"
        missing = [metric.name for metric in plugin.metrics if metric.name not in row]
        assert not missing, f"the row has no {', '.join(missing)}"
        for name, value in row.items():
            assert isinstance(value, int | float) and isfinite(value), f"{name} is {value!r}; write a finite number"

    def test_stages_are_functions_of_what_they_read(self, made: Compiled) -> None:
        """Called twice with the same inputs a stage gives the same, and leaves its inputs as they are."""
        results_of(made, twice=True)

    def test_keys_are_the_same_in_every_process(self, made: Compiled) -> None:
        work = made.cells[0][0]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONHASHSEED": "1"}
        elsewhere = subprocess.run(
            [sys.executable, "-c", KEYS_ELSEWHERE], input=pickle.dumps((made.workload.path, dict(work.configuration))),
            capture_output=True, env=environment, timeout=WITHIN_S, check=False,
        )  # fmt: skip
        assert elsewhere.returncode == 0, elsewhere.stderr.decode()
        assert elsewhere.stdout.decode().strip() == str(work.keys)

    def test_variants_have_keys_of_their_own(self, made: Compiled) -> None:
        row = made.workload.row.name
        by_place: dict[tuple[Any, ...], list[str]] = {}
        for work, cell in made.cells:
            by_place.setdefault((*cell.block, *cell.averaged), []).append(work.keys[row])
        for place, keys in by_place.items():
            assert len(set(keys)) == len(keys), f"two variants at {place} are one row: no stage tells them apart"

    def test_a_changed_setting_changes_the_key(self, made: Compiled, changed: Mapping[str, Any]) -> None:
        if not changed:
            pytest.skip("no setting is given; write a fixture changed")
        before = made.cells[0][0]
        keys = Keys(made.workload).of({**before.configuration, **changed})
        row = made.workload.row.name
        assert keys[row] != before.keys[row], f"rows with {dict(changed)} would be taken for rows without"

    def test_its_short_form_gives_axes(
        self, plugin: WorkloadPlugin, short: Mapping[str, Any] | None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        if plugin.short_form is None:
            pytest.skip("the plug-in has no short form")
        assert short is not None, "write a fixture short: a sweep in the plug-in's short form"
        monkeypatch.setitem(installed(), plugin.name, plugin)
        read = Sweep.model_validate(dict(short))
        assert not read.wrong, [str(error) for error in read.wrong]
        assert read.plugin is plugin, "the short form does not say whose it is; write workload in its general keys"
        assert read.compare, "the short form gives no axis to compare"
        assert a_sweep(short).cells, "the short form gives no rows"


def a_sweep(written: Mapping[str, Any]) -> Compiled:
    """Return a sweep as a manifest would have it, compiled."""
    manifest = Manifest(
        version=1, project=Project(name="contract"), sweeps={"mine": Sweep.model_validate(dict(written))}
    )
    return compiled(with_shipped(manifest), "mine", {})


def results_of(made: Compiled, *, twice: bool = False) -> dict[str, Any]:
    """Return what each stage gives for the first row, computed in this process.

    ``twice`` calls each stage a second time, and checks that it gives the same and has not changed its inputs.
    """
    workload, configuration = made.workload, made.cells[0][0].configuration
    results: dict[str, Any] = {}
    for stage in workload.stages:
        if stage.name not in workload.needed(configuration):
            continue
        if stage.left_out(configuration):
            results[stage.name] = results[stage.needs[0]]
            continue
        needed = stage.needed(configuration)
        inputs = {need: results[need] if given else None for need, given in needed.items()}
        values = {name: configuration[name] for name in stage.reads if name not in stage.unless or name in named(stage)}
        before = key_of(inputs)
        results[stage.name] = stage.function(**inputs, **deepcopy(values))
        if twice:
            assert key_of(inputs) == before, f"stage {stage.name} changes its inputs, which other rows share"
            again = stage.function(**inputs, **deepcopy(values))
            assert key_of(again) == key_of(results[stage.name]), f"stage {stage.name} gives something else each time"
    return results


def named(stage: Any) -> set[str]:
    """Return the parameters of a stage's function."""
    code = stage.function.__code__
    return set(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
