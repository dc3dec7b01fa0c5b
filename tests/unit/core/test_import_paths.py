"""Names are importable where documents say they are."""

from __future__ import annotations

from importlib import import_module

import pytest

import scalable


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
