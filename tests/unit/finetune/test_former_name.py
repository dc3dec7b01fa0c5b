"""The former name of the package: what manifests, scripts and stored results say is still understood."""

from __future__ import annotations

import pickle
import sys
from importlib import import_module
from types import ModuleType

import pytest

from scalable.manifest.load import load_text
from scalable.store.caching.fingerprints import package_of
from scalable.store.caching.keys import known_as, module_of
from scalable.sweeps.compiling import compiled
from scalable.sweeps.workload import find_workload
from scalable_finetune.market.bars import Bars
from scalable_finetune.workload import WORKLOAD

SWEEPS = {
    "discovery": "factor: model, variants: [xgboost, logistic], assets: [AAVEUSDC], folds: 1",
    "portfolio": "factor: rebalance, variants: [1d, 7d], assets: [defi_top5], folds: 1",
}


@pytest.mark.parametrize("name", ["search", "market", "market.bars", "workload"])
def test_a_module_is_the_same_one_by_both_names(name: str) -> None:
    own = import_module(f"scalable_finetune.{name}")
    assert import_module(f"scalable.finetune.{name}") is own
    assert own.__spec__ is not None and own.__spec__.name == own.__name__ == f"scalable_finetune.{name}"


def test_importing_by_the_former_name_leaves_the_package_as_it_is() -> None:
    for module in ("market.bars", "features.overlay"):
        import_module(f"scalable.finetune.{module}")
    assert import_module("scalable_finetune.market").bars is WORKLOAD.by_name["bars"]
    assert import_module("scalable_finetune.features").overlay is WORKLOAD.by_name["overlay"]


def test_artefacts_that_were_pickled_under_the_former_name_are_read() -> None:
    written = pickle.dumps(Bars, protocol=0).replace(b"scalable_finetune", b"scalable.finetune")
    assert b"scalable.finetune" in written and pickle.loads(written) is Bars


def test_a_module_that_is_not_there_is_an_import_error() -> None:
    with pytest.raises(ModuleNotFoundError):
        import_module("scalable.finetune.absent")
    with pytest.raises(AttributeError):
        import_module("scalable.finetune").absent  # noqa: B018


@pytest.mark.parametrize("module", SWEEPS)
def test_rows_have_the_same_keys_by_both_names(module: str) -> None:
    sweep = SWEEPS[module]
    texts = [
        f"version: 1\nproject: {{name: p}}\nsweeps:\n  mine: {{{sweep}, run: '{package}.{module}:WORKLOAD'}}\n"
        for package in ("scalable.finetune", "scalable_finetune")
    ]
    first, second = (compiled(load_text(text, "scalable.yaml", env={}).manifest, "mine", {}) for text in texts)
    assert [key for key, _ in first.expected] == [key for key, _ in second.expected]
    assert first.sweep.plugin is second.sweep.plugin is not None


def test_keys_call_the_package_by_its_former_name() -> None:
    assert module_of(Bars) == "scalable.finetune.market.bars"
    assert package_of("scalable_finetune.search") == "scalable.finetune"
    assert (
        find_workload("scalable.finetune.workload:WORKLOAD").code
        == find_workload("scalable_finetune.workload:WORKLOAD").code
    )


def test_any_package_that_is_renamed_can_keep_its_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    renamed = ModuleType("renamed")
    monkeypatch.setitem(sys.modules, "renamed", renamed)
    assert known_as("renamed.models") == "renamed.models"
    vars(renamed)["__stored_as__"] = "former"
    assert known_as("renamed.models") == "former.models" and known_as("renamed_too.models") == "renamed_too.models"
