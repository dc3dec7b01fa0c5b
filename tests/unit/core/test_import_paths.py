"""Names are importable where documents say they are."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import scalable
from scalable.manifest.targets import installed_providers
from scalable.providers import get_provider
from tests.helpers.paths import ROOT

SOURCES = ROOT / "src"


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("scalable.ml.adaptive_scaler", "AdaptiveScaler"),
        ("scalable.ml.adaptive_scaler", "ScaleDecision"),
        ("scalable.providers.slurm", "SlurmProvider"),
        ("scalable.providers.slurm", "SlurmCluster"),
        ("scalable.providers", "register_provider"),
        ("scalable.providers", "DeploymentProvider"),
    ],
)
def test_documented_import_paths_lead_to_the_same_objects(path: str, name: str) -> None:
    found = getattr(import_module(path), name)
    assert found is getattr(scalable, name, found) and found.__name__ == name


def test_every_public_name_can_be_imported() -> None:
    assert [name for name in scalable.__all__ if not hasattr(scalable, name)] == []
    assert sorted(scalable.__all__) == scalable.__dir__()


def test_a_provider_of_an_installed_package_is_found_under_the_documented_entry_point_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "lab_cluster-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: lab-cluster\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[scalable.providers]\nlab = builtins:dict\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert list(installed_providers()) == ["lab"]
    assert isinstance(get_provider("lab"), dict)


@pytest.mark.parametrize(
    ("package", "within"),
    [
        *((name, name) for name in ("scalable", "scalable.chaos", "scalable.observe", "scalable.testing")),
        ("scalable.workloads", "scalable"),
    ],
)
def test_type_checkers_see_the_names_that_are_imported_when_they_are_first_used(package: str, within: str) -> None:
    module = import_module(package)
    path = Path(str(module.__file__))
    imports = [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.ImportFrom)]
    seen = {
        (node.module, name.asname)
        for node in imports
        for name in node.names
        if name.asname and name.asname == name.name
    }
    assert seen == {(f"{within}.{home}".rstrip("."), name) for home, names in module.HOMES.items() for name in names}
    assert sorted(name for _, name in seen) == module.__all__ == sorted(module.__dir__())


def test_only_their_own_command_imports_faults_and_nothing_imports_the_contract_suites() -> None:
    importers = {
        (path.relative_to(SOURCES / "scalable").as_posix(), room)
        for path in (SOURCES / "scalable").rglob("*.py")
        for room in ("chaos", "testing")
        if room in path.read_text("utf-8")  # to look closely at few
        for module in imported(path)
        if f"{module}.".startswith(f"scalable.{room}.")
    }
    assert {(path, room) for path, room in importers if not path.startswith(f"{room}/")} == {
        ("cli/commands/chaos.py", "chaos")
    }


def imported(path: Path) -> Iterator[str]:
    """Yield the names of modules that a file imports anywhere, and of what it takes from them."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{name.name}" for name in node.names)
