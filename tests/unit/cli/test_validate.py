"""``scalable validate`` and ``scalable plan`` agree on what cannot run, each finding with its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.helpers.cli.commands import Call, call
from tests.helpers.cli.examples import example

__all__ = ["call", "example"]

HEAD = "version: 1\nproject: {name: lab}\n"
TWO = "components:\n  model: {cpus: 1}\n  report: {cpus: 1}\n"
SWEEP = "sweeps:\n  s: {factor: f, variants: [1, 2], assets: [a], folds: 1, run: 'm:f', run_minutes: 90}\n"
IMAGE = "registry.example.com/w:1.0"


def write(folder: Path, text: str) -> None:
    (folder / "scalable.yaml").write_text(HEAD + text, encoding="utf-8")


def findings(call: Call, severity: str, *arguments: str) -> dict[str, dict[str, Any]]:
    record = call("validate", "--format", "json", *arguments).json
    return {finding["path"]: finding for finding in record[severity]}


PROVIDERS = {
    "docker on this machine": ("{provider: local, containers: docker}", "targets.t.containers", "unsupported"),
    "aws without an image": ("{provider: aws, region: eu-west-1}", "components.model.image", "image"),
    "aws without a role": (
        f"{{provider: aws, image: {IMAGE}}}",
        "targets.t.execution_role_arn",
        "no-execution_role_arn",
    ),
    "kubernetes without an image": ("{provider: kubernetes}", "targets.t.image", "no-image"),
}


@pytest.mark.parametrize(("target", "path", "code"), PROVIDERS.values(), ids=PROVIDERS)
def test_what_the_provider_refuses_is_an_error_with_its_place(
    call: Call, tmp_path: Path, target: str, path: str, code: str
) -> None:
    write(tmp_path, f"targets:\n  t: {target}\ncomponents:\n  model: {{cpus: 1}}\n")
    assert call("validate").status == 1
    finding = findings(call, "errors")[path]
    assert finding["code"] == code
    assert finding["line"] in (4, 6)


def test_gpus_on_fargate_are_an_error_at_the_component(call: Call, tmp_path: Path) -> None:
    write(tmp_path, f"targets: {{t: {{provider: aws, image: {IMAGE}}}}}\ncomponents:\n  model: {{cpus: 1, gpus: 1}}\n")
    finding = findings(call, "errors")["components.model.gpus"]
    assert (finding["code"], finding["line"]) == ("no-gpus", 5)


def test_what_another_target_lacks_is_a_warning(call: Call, tmp_path: Path) -> None:
    targets = "targets:\n  here: {provider: local, processes: true}\n  there: {provider: local, containers: docker}\n"
    write(tmp_path, f"{targets}components:\n  model: {{cpus: 1}}\n")
    assert call("validate").status == 0
    assert findings(call, "warnings")["targets.there.containers"]["line"] == 5
    assert call("validate", "--target", "there").status == 1


def test_what_only_this_machine_lacks_is_a_warning(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    write(tmp_path, "targets: {hpc: {provider: slurm, max_workers: 2}}\ncomponents: {model: {cpus: 1}}\n")
    assert call("validate").status == 0
    assert findings(call, "warnings")["targets.hpc"]["code"] == "no-slurm"


def test_two_components_on_one_worker_are_refused_by_validate_as_by_plan(call: Call, tmp_path: Path) -> None:
    write(tmp_path, f"targets:\n  here: {{provider: local}}\n{TWO}")
    planned = call("plan")
    (finding,) = findings(call, "errors").values()
    assert (call("validate").status, planned.status) == (1, 1)
    assert (finding["path"], finding["line"]) == ("targets.here.max_workers", 4)
    assert f"{finding['message']}; {finding['remedy']}" in planned.err.replace("\n", " ")


REFUSED = {
    "longer than the walltime": ("targets: {hpc: {provider: slurm, walltime: '01:00:00'}}\n", SWEEP),
    "over the memory limit": (
        "targets: {here: {provider: local, processes: true}}\n",
        SWEEP.replace("run_minutes: 90", "samples: 9000000, features: 100"),
    ),
}


@pytest.mark.parametrize(("targets", "sweeps"), REFUSED.values(), ids=REFUSED)
def test_a_sweep_that_cannot_be_planned_is_refused_by_validate(
    call: Call, tmp_path: Path, targets: str, sweeps: str
) -> None:
    write(tmp_path, targets + sweeps)
    planned = call("plan", "--sweep", "s")
    finding = findings(call, "errors")["sweeps.s"]
    assert (planned.status, finding["line"]) == (1, 5)
    assert finding["message"] in planned.err.replace("\n", " ")


def test_what_the_provider_says_of_a_profile_stands_at_the_profile(call: Call, tmp_path: Path) -> None:
    size = "{request: {cpu: 1, memory: 1GiB}, limit: {cpu: 1, memory: 900TiB}}"
    targets = "targets: {here: {provider: local, processes: true}}\n"
    write(tmp_path, f"{targets}profiles:\n  big: {size}\n{SWEEP.replace('run_minutes', 'profile: big, run_minutes')}")
    warnings = [f for f in findings(call, "warnings").values() if f["code"] == "over-machine"]
    assert [(finding["path"], finding["line"]) for finding in warnings] == [("profiles.big.memory", 5)]


def test_an_image_that_profiles_lack_is_told_once_at_the_target(call: Call, tmp_path: Path) -> None:
    write(tmp_path, f"targets:\n  cloud: {{provider: aws, region: eu-west-1}}\n{SWEEP}")
    lacking = [f for f in call("validate", "--format", "json").json["errors"] if f["code"] == "image"]
    assert [(finding["path"], finding["line"]) for finding in lacking] == [("targets.cloud.image", 4)]


def test_nothing_is_said_of_a_shipped_profile_that_this_machine_cannot_hold(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sysconf", lambda name: 1024)  # one MiB of memory
    write(tmp_path, f"targets: {{here: {{provider: local, processes: true}}}}\n{SWEEP}")
    assert "over-machine" not in {finding["code"] for finding in findings(call, "warnings").values()}


LATEST = """targets:
  here: {provider: local, processes: true}
  there: {provider: kubernetes, image: 'x:latest'}
components:
  model: {cpus: 1}
"""


def test_an_image_that_changes_blocks_only_the_target_that_uses_it(call: Call, tmp_path: Path) -> None:
    write(tmp_path, LATEST)
    assert [call(*words).status for words in (["validate"], ["plan"], ["validate", "--target", "here"])] == [0, 0, 0]
    assert findings(call, "warnings")["targets.there.image"]["line"] == 5
    assert call("validate", "--target", "there").status == call("plan", "--target", "there").status == 1
    assert findings(call, "errors", "--target", "there")["targets.there.image"]["line"] == 5


def test_a_profile_on_two_pools_is_refused_alike_wherever_it_cannot_be(example: Call, tmp_path: Path) -> None:
    written = "calibration: {factor: calibration,"
    text = (tmp_path / "scalable.yaml").read_text(encoding="utf-8")
    assert written in text
    text = text.replace(written, f"{written} pool: permanent,").replace(
        "namespace: ftf", "namespace: ftf\n    claim: c"
    )
    (tmp_path / "scalable.yaml").write_text(f"{text}artefacts: s3://bucket/lab\n", encoding="utf-8")
    (finding,) = findings(example, "errors").values()
    assert finding["path"] == "sweeps.calibration.pool"
    assert "calibration on permanent" in finding["message"]
    for words in (["plan"], ["plan", "--sweep", "timeframe"], ["deploy", "kubernetes", "--sweep", "timeframe"]):
        refused = example(*words)
        assert refused.status == 1
        assert finding["message"] in refused.err.replace("\n", " ")
    assert example("validate", "--target", "local").status == example("plan", "--target", "local").status == 0
    assert example("forecast", "margins").status == 0
