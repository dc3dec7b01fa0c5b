"""What ``SlurmCluster`` says to what cannot work, before it asks Slurm for anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scalable import ScalableError, SlurmCluster


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"walltime": "4h"}, "walltime: '4h' is not a walltime; write HH:MM:SS"),
        ({"queue": 3}, "queue must be a non-empty text, not 3"),
        ({"container_runtime": "docker"}, "container_runtime: 'docker': input should be 'apptainer' or 'none'"),
        ({"code": "copied"}, "code: 'copied': input should be 'shared', 'upload' or 'image'"),
    ],
)
def test_options_are_checked_as_a_manifests_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ScalableError, match=message):
        SlurmCluster(**options)
    assert not list(tmp_path.iterdir())


def test_a_kind_of_worker_that_cannot_be_is_not_defined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    wrong: dict[str, Any]
    with SlurmCluster(interface="lo") as cluster:
        for wrong, message in (
            ({"memory": "0G"}, "a worker needs memory above 0"),
            ({"memory": 20}, "20 is not an amount of memory"),
            ({"dirs": ["/a"]}, r"dirs is \['/a'\]; write"),
            ({"dirs": {"data": "/data"}}, "write two absolute paths"),
            ({"dirs": {"": "/data"}}, "write two absolute paths"),
        ):
            with pytest.raises(ScalableError, match=message):
                cluster.add_container("demeter", **wrong)
        assert cluster.templates == {}
        cluster.add_container("demeter", memory="20G", dirs={Path("/data"): "/in"}, env={"YEARS": 3})
        assert cluster.templates["demeter"].mounts == {"/data": "/in"}
        assert cluster.templates["demeter"].env == {"YEARS": "3"}
