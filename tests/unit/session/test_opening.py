"""From a manifest to a session: which file, which target, what is checked and planned before anything starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scalable import ManifestError, ScalableSession
from scalable.cluster.base import get_provider, register_provider
from scalable.errors import PlanningError, UsageError
from scalable.observe.folders import RunFolderError
from scalable.planning.components import ComponentPlan
from tests.helpers.session.builders import Project, here

pytestmark = pytest.mark.usefixtures("world")


TWO = {"one": {"provider": "local", "max_workers": 3}, "two": {"provider": "local", "max_workers": 2}}


def test_a_manifest_is_found_in_the_current_folder(project: Project) -> None:
    project.write()
    assert ScalableSession.from_yaml().manifest.project.name == "proof"


def test_a_manifest_is_found_by_the_environment_and_an_argument_comes_first(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = Project(project.folder / "a folder with spaces")
    elsewhere.folder.mkdir()
    monkeypatch.setenv("SCALABLE_MANIFEST", str(elsewhere.write(project={"name": "elsewhere"})))
    assert ScalableSession.from_yaml().manifest.project.name == "elsewhere"
    assert ScalableSession.from_yaml(project.write()).manifest.project.name == "proof"


def test_a_missing_manifest_is_named_with_what_to_do(project: Project) -> None:
    with pytest.raises(UsageError, match=r"scalable\.yaml.*scalable init"):
        ScalableSession.from_yaml()


def test_the_target_is_the_argument_then_the_environment_then_the_first(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write(targets=TWO)
    assert ScalableSession.from_yaml().target == "one"
    monkeypatch.setenv("SCALABLE_TARGET", "two")
    assert ScalableSession.from_yaml().target == "two"
    assert ScalableSession.from_yaml(target="one").target == "one"


def test_a_target_that_is_not_defined_is_refused_with_those_that_are(project: Project) -> None:
    project.write(targets=TWO)
    with pytest.raises((ManifestError, UsageError)) as error:
        ScalableSession.from_yaml(target="three")
    assert "one" in str(error.value)
    assert "two" in str(error.value)


def test_what_the_provider_finds_questionable_is_in_the_report(project: Project) -> None:
    session = project.session(components={"demeter": {"memory": "1GiB", "image": "demeter:1.2"}})
    report = session.validate()
    assert report.ok
    assert {"shared-process", "image-ignored"} <= {issue.code for issue in report.warnings}


@pytest.mark.parametrize(
    ("devices", "codes"),
    [
        ([], ["no-gpus"]),
        (["nvidiactl", "nvidia-uvm"], ["no-gpus"]),
        (["nvidia0"], ["too-few-gpus"]),
        (["nvidia0", "nvidia1"], ["gpus-ignored"]),
        (["kfd"], ["gpus-ignored"]),
    ],
)
def test_more_gpus_than_the_machine_has_are_refused(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, devices: list[str], codes: list[str]
) -> None:
    folder = tmp_path / "dev"
    folder.mkdir()
    for device in devices:
        (folder / device).touch()
    monkeypatch.setattr("scalable.cluster.local.DEVICES", folder)
    report = project.session(components={"demeter": {"gpus": 2}}).validate()
    assert [issue.code for issue in report] == codes
    assert report.ok is (codes == ["gpus-ignored"])


def test_a_profile_with_gpus_that_no_sweep_uses_keeps_nobody_from_this_machine(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scalable.cluster.local.DEVICES", tmp_path / "none")
    size = {"cpu": 1, "memory": "1GiB"}
    profiles = {"plain": {"request": size, "limit": size}, "gpu": {"request": size, "limit": {**size, "gpus": 1}}}
    module = project.module("def f(asset, variant, fold):\n    return {'score': 1.0}\n")
    one = {"factor": "size", "variants": [1], "assets": ["A"], "run": f"{module}:f"}

    def session(**more: Any) -> ScalableSession:
        sweeps = {"trial": {**one, "profile": "plain"}, **more}
        return project.session(components={}, profiles=profiles, sweeps=sweeps)

    assert session().validate().ok
    assert session().run_sweep("trial").complete
    used = session(other={**one, "profile": "gpu"})
    assert [issue.code for issue in used.validate().errors] == ["no-gpus"]
    assert used.plan_sweep("trial").profile == "plain" and used.run_sweep("trial").complete, "it needs no GPU"
    with pytest.raises(ManifestError, match="needs 1 GPU"):
        used.run_sweep("other")


def test_a_plan_for_another_target_or_manifest_is_refused_with_both_names(project: Project) -> None:
    session = project.session(targets=TWO)
    other_target = ScalableSession.from_yaml(session.path, target="two")
    elsewhere = Project(project.folder / "elsewhere")
    elsewhere.folder.mkdir()
    for other in (other_target, elsewhere.session(targets=TWO)):
        with pytest.raises(UsageError) as error:
            session.start(other.plan())
        for origin in (session.origin, other.origin):
            assert str(origin.target) in str(error.value)
            assert origin.manifest in str(error.value)
    assert project.runs() == []
    session.start(ScalableSession.from_yaml(session.path).plan())
    session.close()


@pytest.mark.parametrize("name", ["", "  ", " lab", "lab ", None])
def test_a_provider_needs_a_name_without_blanks_around_it(name: str) -> None:
    with pytest.raises(UsageError, match="without blanks"):
        register_provider(name, lambda: get_provider("local"))


def test_what_manifest_and_provider_both_find_questionable_is_told_once(project: Project) -> None:
    session = project.session(components={"demeter": {"memory": "1GiB"}, "gcam": {}})
    (warning,) = session.validate().warnings
    assert warning.code == "shared-process"
    assert warning.place.line, "the one that knows its line"


def test_what_the_provider_cannot_do_is_refused_before_anything_starts(project: Project) -> None:
    session = project.session(target={"containers": "docker"})
    assert not session.validate().ok
    with pytest.raises(ManifestError, match="write containers: none"):
        session.start()
    assert project.runs() == []


def test_more_memory_than_the_machine_has_is_questionable(project: Project) -> None:
    session = project.session(target={"processes": True}, components={"demeter": {"memory": "900TiB"}})
    assert "over-machine" in {issue.code for issue in session.validate().warnings}


def test_artefacts_below_the_home_folder_are_kept_there_where_every_command_looks(project: Project) -> None:
    assert project.session(artefacts="~/kept").artefacts() == str(Path.home() / "kept")


def test_max_workers_are_shared_out_among_the_components(project: Project) -> None:
    session = project.session(target={"max_workers": 4}, components={"a": {"cpus": 2, "memory": "1GiB"}, "b": {}})
    plan = session.plan(dry_run=True)
    assert plan.scale_plan.workers_by_tag == {"a": 2, "b": 2}
    assert plan.scale_plan.resources_by_tag["a"].cpus == 2
    assert plan.to_dict()["workers_by_tag"] == {"a": 2, "b": 2}
    assert plan.cost_estimate is None
    assert project.runs() == [], "planning starts and records nothing"


@pytest.mark.parametrize("words", [{"objective": "minimise everything"}, {"policy": "reckless"}, {"objective": ""}])
def test_an_objective_or_policy_that_does_not_exist_is_refused_by_name(project: Project, words: dict[str, str]) -> None:
    session = project.session()
    with pytest.raises(PlanningError) as error:
        session.plan(**words)  # type: ignore[arg-type]
    assert repr(next(iter(words.values()))) in str(error.value)
    assert "minimize cost" in str(error.value) or "aggressive" in str(error.value)


def test_fewer_workers_than_components_are_refused(project: Project) -> None:
    session = project.session(target={"max_workers": 1}, components={"a": {}, "b": {}})
    with pytest.raises(PlanningError, match="raise max_workers"):
        session.start()
    assert project.runs() == []


@pytest.mark.parametrize("order", [["a", "b"], ["b", "a"]])
def test_a_component_cannot_take_the_work_of_another_by_its_name(project: Project, order: list[str]) -> None:
    components = {"a": {"tags": ["b"]}, "b": {}}
    session = project.session(target={"max_workers": 2}, components={name: components[name] for name in order})
    with pytest.raises(UsageError, match="choose another name"):
        session.start()


def test_a_manifest_with_nothing_to_do_says_so(project: Project) -> None:
    with pytest.raises(PlanningError, match="neither sweeps nor components"):
        project.session(components={}).plan()


def test_a_runs_folder_that_cannot_be_written_is_named_with_the_remedy(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project.folder / "file").write_text("")
    monkeypatch.setenv("SCALABLE_RUNS_DIR", str(project.folder / "file" / "runs"))
    with pytest.raises(RunFolderError, match="SCALABLE_RUNS_DIR") as error:
        project.session().start()
    assert str(project.folder / "file" / "runs") in str(error.value)


def test_a_plan_that_is_none_is_refused_in_words(project: Project) -> None:
    with pytest.raises(UsageError, match=r"start\(5\): give it a plan"):
        project.session().start(5)  # type: ignore[arg-type]
    assert project.runs() == []


def test_without_any_target_work_is_done_on_this_machine(project: Project) -> None:
    with project.session(targets={}, components={"a": {}, "b": {}}) as client:
        assert client.submit(here, tag="a").result().startswith("a-")
        assert client.worker_count() == 2


def test_a_plan_can_be_made_first_and_started_later(project: Project) -> None:
    session = project.session(target={"max_workers": 4})
    plan = session.plan(objective="minimize cost")
    assert isinstance(plan, ComponentPlan)
    assert session.plan(objective="minimize time").scale_plan.workers_by_tag == {"demeter": 4}
    assert plan.scale_plan.workers_by_tag == {"demeter": 1}
    client = session.start(plan)
    assert client.worker_count() == 1
    session.close()


def test_runs_go_where_the_environment_says(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCALABLE_RUNS_DIR", str(project.folder / "somewhere else"))
    with project.session():
        pass
    assert len(list(Path("somewhere else").glob("run-*-proof-*"))) == 1
    assert project.runs() == []
