"""``scalable admin deploy``: what it writes where, what it says, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalable.cli.commands.deploy import check_secrets
from scalable.errors import UsageError
from scalable.observe.redact import KNOWN
from tests.helpers.cli.commands import Call, call
from tests.helpers.deploy.rendering import MANIFEST

__all__ = ["call"]

PLAIN = [
    "00-namespace.yaml", "10-accounts.yaml", "20-rights.yaml", "30-network.yaml", "40-bounds.yaml", "50-manifest.yaml",
    "60-job.yaml", "Dockerfile", "Dockerfile.dockerignore", "README.md",
]  # fmt: skip


@pytest.fixture
def deploy(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """In a folder with a manifest for a cluster."""
    monkeypatch.delenv("SCALABLE_STORE_URL", raising=False)
    (tmp_path / "scalable.yaml").write_text(MANIFEST, encoding="utf-8")
    return lambda *arguments: call("deploy", *arguments)


def test_plain_files_are_written_and_the_next_commands_told(deploy: Call, tmp_path: Path) -> None:
    done = deploy("kubernetes", "--output", "out")
    assert done.status == 0, done.err
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == PLAIN
    for line in ("kubectl apply --filename out", "docker build --file out/Dockerfile --tag lab/sweeps:1.4 .",
                 "kubectl --namespace lab create secret generic lab-driver"):  # fmt: skip
        assert line in done.out
        assert line in (tmp_path / "out/README.md").read_text(encoding="utf-8")
    assert "a NetworkPolicy cannot name it" in done.out.replace("\n    ", " ")


def test_a_chart_is_written_with_its_namespace_outside_of_the_templates(deploy: Call, tmp_path: Path) -> None:
    done = deploy("kubernetes", "--helm", "--output", "chart")
    assert done.status == 0, done.err
    found = {str(path.relative_to(tmp_path / "chart")) for path in (tmp_path / "chart").rglob("*") if path.is_file()}
    assert {"Chart.yaml", "values.yaml", "namespace.yaml", "templates/60-job.yaml"} <= found
    assert "templates/00-namespace.yaml" not in found
    assert "helm install lab chart --namespace lab" in done.out


def test_machines_are_told_files_notes_and_commands(deploy: Call) -> None:
    told = deploy("kubernetes", "--format", "json").json
    assert told["output"] == "deploy"
    assert told["files"] == PLAIN
    assert told["next"][1] == "kubectl apply --filename deploy/00-namespace.yaml"
    assert told["notes"]


def test_a_folder_with_files_in_it_is_left_alone_unless_forced_and_strangers_are_named(
    deploy: Call, tmp_path: Path
) -> None:
    (tmp_path / "deploy").mkdir()
    (tmp_path / "deploy/70-mine.yaml").write_text("mine", encoding="utf-8")
    refused = deploy("kubernetes")
    assert refused.status == 2
    assert "deploy is not empty; --force replaces" in refused.err
    assert [path.name for path in (tmp_path / "deploy").iterdir()] == ["70-mine.yaml"]

    forced = deploy("kubernetes", "--force")
    assert forced.status == 0
    assert "left as they were: 70-mine.yaml" in forced.out
    assert (tmp_path / "deploy/70-mine.yaml").read_text(encoding="utf-8") == "mine"


def test_nothing_is_written_when_something_is_wrong(deploy: Call, tmp_path: Path) -> None:
    (tmp_path / "scalable.yaml").write_text(MANIFEST.replace("    image: lab/sweeps:1.4\n", ""), encoding="utf-8")
    refused = deploy("kubernetes")
    assert refused.status == 1
    assert "no image is named" in refused.err
    assert not (tmp_path / "deploy").exists()


def test_an_output_that_is_a_file_is_refused(deploy: Call) -> None:
    refused = deploy("kubernetes", "--output", "scalable.yaml")
    assert refused.status == 2
    assert "is a file; name a folder" in refused.err


def test_a_folder_that_cannot_be_made_is_named(deploy: Call) -> None:
    refused = deploy("kubernetes", "--output", "scalable.yaml/out")
    assert refused.status == 2
    assert "name another folder: --output DIR" in refused.err


def test_a_system_that_is_not_known_is_refused_with_the_nearest(deploy: Call) -> None:
    refused = deploy("kubernets")
    assert refused.status == 2
    assert "write kubernetes" in refused.err


def test_a_dag_is_written_without_knowing_what_secrets_hold(deploy: Call, tmp_path: Path) -> None:
    secret = "LEVEL: info\n      SCALABLE_STORE_URL: {secret: lab-store, key: url}"
    (tmp_path / "scalable.yaml").write_text(MANIFEST.replace("LEVEL: info", secret), encoding="utf-8")
    done = deploy("airflow", "--output", "dags")
    assert done.status == 0, done.err
    (dag,) = (tmp_path / "dags").iterdir()
    compile(dag.read_text(encoding="utf-8"), str(dag), "exec")


def test_options_of_kubernetes_are_refused_for_airflow(deploy: Call) -> None:
    refused = deploy("airflow", "--helm")
    assert refused.status == 2
    assert "--helm is about Kubernetes" in refused.err


@pytest.mark.parametrize("what", ["kubernetes", "airflow"])
def test_a_secret_of_this_environment_is_written_nowhere_whatever_it_is_called(
    deploy: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setenv("LAB_TOKEN", "staple-of-the-lab")
    monkeypatch.setattr(KNOWN, "looked", float("-inf"))
    text = MANIFEST.replace("LEVEL: info", "LEVEL: staple-of-the-lab")
    (tmp_path / "scalable.yaml").write_text(text, encoding="utf-8")
    sweep = ["--sweep", "calibration"] if what == "airflow" else []
    done = deploy(what, "--output", "out", *sweep)
    assert done.status != 0
    assert "staple-of-the-lab" not in done.err + done.out
    assert not (tmp_path / "out").exists()


def test_the_last_look_at_what_is_written_names_the_line() -> None:
    with pytest.raises(UsageError, match=r"line 2 of 60-job\.yaml .*\*\*\*"):
        check_secrets({"60-job.yaml": "kind: Job\nargs: [ghp_abcdefgh12345abcdefgh12345]\n"})
