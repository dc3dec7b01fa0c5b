"""Good manifests: overlays, variables, YAML 1.2 words, targets and what is shipped."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalable.errors import UsageError
from scalable.manifest import Loaded, Manifest, ManifestError, load_file, load_text
from scalable.manifest.targets import LocalTarget, SlurmTarget
from scalable.manifest.work import Retry
from scalable.quantities import Cpu, Duration, Memory, Money
from scalable_finetune.catalogue import GROUPS
from tests.helpers.paths import ROOT

EXAMPLE = ROOT / "examples" / "ftf" / "scalable.yaml"
HEAD = "version: 1\nproject: {name: test}\n"


def load(
    text: str,
    env: dict[str, str] | None = None,
    *,
    target: str | None = None,
    overlay: str | None = None,
    providers: tuple[str, ...] = (),
) -> Loaded:
    return load_text(HEAD + text, env=env or {}, target=target, overlay=overlay, providers=providers)


def manifest(text: str, env: dict[str, str] | None = None) -> Manifest:
    return load(text, env).manifest


def local(loaded: Loaded, name: str = "here") -> LocalTarget:
    target = loaded.manifest.targets[name]
    assert isinstance(target, LocalTarget)
    return target


def test_the_example_loads_without_a_warning() -> None:
    loaded = load_file(EXAMPLE, env={})

    assert loaded.report.ok and not loaded.report.warnings
    assert loaded.target == "cluster"
    found = loaded.manifest
    assert found.nodes["PRO2-S"].allocatable is not None
    assert found.nodes["PRO2-S"].allocatable.cpu == Cpu(7800)
    assert found.pools["compute"].most == 6 and found.pools["compute"].least == 0
    assert found.pools["compute"].idle == Duration(600)
    assert found.budget is not None and found.budget.monthly == Money.parse("200 EUR")
    assert found.scenarios["worst-case"].workloads == {"discovery": 1, "wfrb": 1}


def test_a_file_with_a_byte_order_mark_loads(tmp_path: Path) -> None:
    path = tmp_path / "scalable.yaml"
    path.write_text(HEAD, encoding="utf-8-sig")

    assert load_file(path, env={}).manifest.project.name == "test"
    assert load_file(str(path), env={}).manifest.project.name == "test"


def test_the_smallest_manifest_has_the_shipped_profiles_and_groups() -> None:
    found = manifest("")

    assert {name: (str(p.request.cpu), str(p.request.memory)) for name, p in found.profiles.items()} == {
        "standard": ("2", "2 GiB"),
        "heavy": ("2", "12 GiB"),
        "wfrb": ("1", "2 GiB"),
    }
    assert {name: (str(p.limit.cpu), str(p.limit.memory)) for name, p in found.profiles.items()} == {
        "standard": ("4", "8 GiB"),
        "heavy": ("4", "24 GiB"),
        "wfrb": ("2", "4 GiB"),
    }
    heavy = found.profiles["heavy"]
    assert heavy.alone and heavy.min_nodes == 2
    assert {name: tuple(assets) for name, assets in found.groups.items()} == GROUPS


def test_ones_own_profile_and_group_win_over_the_shipped_ones() -> None:
    found = manifest(
        "profiles: {standard: {request: {cpu: 1, memory: 1GiB}, limit: {cpu: 1, memory: 1GiB}}}\n"
        "groups: {defi_top5: [AAA], mine: BBB}\n"
    )

    assert found.profiles["standard"].limit.cpu == Cpu(1000)
    assert found.profiles["standard"].memory_peak == Memory.of_gib(1)
    assert "heavy" in found.profiles
    assert found.groups["defi_top5"] == ["AAA"]
    assert found.groups["mine"] == ["BBB"]


def test_small_nodes_load_though_no_shipped_profile_fits_on_them() -> None:
    loaded = load("nodes: {tiny: {cpu: 1, memory: 1GiB, price: 1 EUR/month}}\npools: {p: {node: tiny, count: 1}}\n")

    assert loaded.report.ok


OVERLAID = """
targets:
  here: {provider: local, max_workers: 2, overlay: large}
  plain: {provider: local, max_workers: 2}
components:
  model: {cpus: 2, memory: 4GiB, tags: [a, b], env: {A: one, B: two}}
overlays:
  large:
    targets: {here: {max_workers: 8}}
    components: {model: {cpus: 4, tags: [c], env: {B: three}}}
  debug: {components: {model: {env: {C: four}}}}
"""


def test_an_overlay_merges_mappings_and_replaces_lists_and_values() -> None:
    loaded = load(OVERLAID)

    model = loaded.manifest.components["model"]
    assert local(loaded).max_workers == 8
    assert model.cpus == 4
    assert model.memory == Memory.of_gib(4)
    assert model.tags == ["c"]
    assert model.env == {"A": "one", "B": "three"}
    assert loaded.manifest.overlays == {}


def test_a_target_without_overlay_sees_the_manifest_as_written() -> None:
    loaded = load(OVERLAID, target="plain")

    assert loaded.target == "plain"
    assert loaded.manifest.components["model"].cpus == 2
    assert local(loaded).max_workers == 2


def test_an_overlay_asked_for_comes_on_top_of_the_targets_own() -> None:
    env = load(OVERLAID, overlay="debug").manifest.components["model"].env

    assert env == {"A": "one", "B": "three", "C": "four"}


def test_an_overlay_may_stand_on_another() -> None:
    loaded = load(
        "targets: {here: {provider: local, overlay: top}}\n"
        "overlays:\n"
        "  base: {targets: {here: {max_workers: 3, threads_per_worker: 2}}}\n"
        "  middle: {overlay: base, targets: {here: {max_workers: 4}}}\n"
        "  top: {overlay: middle, targets: {here: {processes: true}}}\n"
    )

    target = local(loaded)
    assert (target.max_workers, target.threads_per_worker, target.processes) == (4, 2, True)


def test_an_overlay_may_change_which_overlay_the_target_names() -> None:
    loaded = load(
        "targets: {here: {provider: local, overlay: a}}\n"
        "overlays:\n"
        "  a: {targets: {here: {overlay: b, max_workers: 2}}}\n"
        "  b: {targets: {here: {max_workers: 5}}}\n"
    )

    assert local(loaded).max_workers == 5


def test_variables_are_replaced_and_read_as_what_they_hold() -> None:
    loaded = load(
        "targets:\n  here:\n    provider: local\n    max_workers: ${N}\n    processes: ${P:-true}\n", {"N": "7"}
    )

    assert local(loaded).max_workers == 7
    assert local(loaded).processes is True


@pytest.mark.parametrize(
    ("written", "env", "read"),
    [
        ("${A}", {"A": "x"}, "x"),
        ("${A:-d}", {}, "d"),
        ("${A:-d}", {"A": "x"}, "x"),
        ("${A:-d}", {"A": ""}, "d"),
        ("${A:-}", {}, None),
        ("pre-${A}-${B:-b}-post", {"A": "a"}, "pre-a-b-post"),
        ("$${A}", {"A": "x"}, "${A}"),
        ("cost$$5", {}, "cost$5"),
        ("$HOME", {"HOME": "x"}, "$HOME"),
        ("'${A}'", {"A": "5"}, "5"),
        ("${A}", {"A": "${B}", "B": "no"}, "${B}"),
    ],
)
def test_a_text_with_variables(written: str, env: dict[str, str], read: str | None) -> None:
    assert manifest(f"components:\n  c:\n    image: {written}\n", env).components["c"].image == read


def test_a_quoted_variable_stays_text() -> None:
    env = manifest('components:\n  c:\n    env: {A: "${N}"}\n', {"N": "5"}).components["c"].env

    assert env == {"A": "5"}


def test_words_mean_what_yaml_1_2_says() -> None:
    found = manifest(
        "targets: {hpc: {provider: slurm, walltime: 04:00:00}}\n"
        "components: {c: {env: {a: off, b: yes, c: NO, d: 0o7, e: 1e3, f: 012, g: true, h: .nan, i: 2026-01-01}}}\n"
        "sweeps: {btc: {factor: btc_features, variants: [off, on], assets: [NO, off]}}\n"
        "policies: {margins: {spread: off}, retry: {delay: 00:01:30}}\n"
    )

    target = found.targets["hpc"]
    assert isinstance(target, SlurmTarget) and target.walltime == "04:00:00"
    env = found.components["c"].env
    assert env["a"] == "off" and env["b"] == "yes" and env["c"] == "NO" and env["d"] == "0o7"
    assert env["e"] == 1000.0 and env["g"] is True and env["h"] == ".nan" and env["i"] == "2026-01-01"
    assert found.sweeps["btc"].compare == {"btc_features": ("off", "on")}
    assert found.sweeps["btc"].over["asset"].values == ("NO", "off")
    assert found.policies.margins.spread is False
    assert found.policies.retry.delay == Duration(90)


def test_the_words_of_slurm_are_keys_of_its_targets_and_components() -> None:
    found = manifest(
        "targets: {hpc: {provider: slurm, partition: long, qos: high, constraint: intel&ib, reservation: course,\n"
        "  workers_per_job: 8, nodes_per_job: 2, exclusive: true, backlog: 3, sbatch: [--nice=5, --nodes=1, -n 1]}}\n"
        "components: {c: {partition: gpu, qos: low, account: LAB, constraint: amd, reservation: other,\n"
        '  walltime: "01:00:00", gpus: 2, gpu_type: a100}}\n'
    )
    target = found.targets["hpc"]
    assert isinstance(target, SlurmTarget) and (target.queue, target.partition) == ("long", "long")
    assert (target.workers_per_job, target.nodes_per_job, target.exclusive, target.backlog) == (8, 2, True, 3)
    assert (target.qos, target.constraint, target.reservation) == ("high", "intel&ib", "course")
    part = found.components["c"]
    assert (part.partition, part.qos, part.account, part.constraint) == ("gpu", "low", "LAB", "amd")
    assert (part.reservation, part.walltime, part.gpu_type) == ("other", "01:00:00", "a100")


@pytest.mark.parametrize(
    ("written", "key"),
    [("nodes", "nodes_per_job"), ("ntasks", "workers_per_job"), ("cores", "cpus"), ("time", "walltime"),
     ("job_extra_directives", "sbatch")],
)  # fmt: skip
def test_words_of_other_programs_are_answered_with_the_key_that_is_meant(written: str, key: str) -> None:
    (warning,) = load(f"targets: {{hpc: {{provider: slurm, {written}: 2}}}}\n").report.warnings
    assert (warning.code, warning.path) == ("unknown-option", f"targets.hpc.{written}")
    assert key in warning.remedy


def test_a_requeue_is_ignored_and_that_is_said() -> None:
    (warning,) = load("targets: {hpc: {provider: slurm, sbatch: [--nice=5, --requeue]}}\n").report.warnings
    assert (warning.code, warning.path) == ("ignored-option", "targets.hpc.sbatch[1]")


def test_what_a_sweep_or_task_does_not_say_of_its_retries_is_as_for_all() -> None:
    found = manifest(
        "components: {c: {}}\n"
        "tasks: {t: {component: c, retry: {delay: 5s}}, u: {component: c}}\n"
        "sweeps: {s: {factor: calibration, assets: [A], retry: {times: 0}}}\n"
        "policies: {retry: {times: 3, cap: 10s}}\n"
    )
    policies = found.policies
    assert policies.retry_of(found.tasks["t"].retry) == Retry(times=3, delay=Duration(5), cap=Duration(10))
    assert policies.retry_of(found.tasks["u"].retry) == policies.retry
    assert policies.retry_of(found.sweeps["s"].retry) == Retry(times=0, delay=Duration(60), cap=Duration(10))


def test_merge_keys_give_defaults_that_ones_own_keys_override() -> None:
    found = manifest(
        "components:\n"
        "  base: &base {cpus: 2, memory: 4GiB, env: {A: one}}\n"
        "  other: &other {cpus: 9, tags: [x]}\n"
        "  before: {<<: *base, cpus: 4}\n"
        "  after: {cpus: 4, <<: *base}\n"
        "  both: {<<: [*base, *other]}\n"
    ).components

    assert found["before"] == found["after"]
    assert found["before"].cpus == 4 and found["before"].memory == Memory.of_gib(4)
    assert found["both"].cpus == 2 and found["both"].tags == ["x"]


def test_an_alias_repeats_what_it_names() -> None:
    found = manifest("sweeps:\n  a: &s {factor: timeframe, assets: defi_top5}\n  b: *s\n").sweeps

    assert found["a"] == found["b"]


def test_every_built_in_target_is_read_with_its_defaults() -> None:
    found = manifest(
        "targets:\n"
        "  a: {provider: local}\n"
        "  b: {provider: slurm, queue: short, account: x}\n"
        "  c: {provider: kubernetes, adaptive: {maximum: 4}}\n"
        "  d: {provider: aws, region: eu-west-1, subnets: one}\n"
        "  e: {provider: gcp, zone: europe-west1-b}\n"
    ).targets

    assert local(load("targets: {here: {provider: local}}\n")) == LocalTarget(provider="local", max_workers=1)
    assert {name: target.provider for name, target in found.items()} == {
        "a": "local",
        "b": "slurm",
        "c": "kubernetes",
        "d": "aws",
        "e": "gcp",
    }
    assert found["c"].adaptive is not None and found["c"].adaptive.minimum == 0
    assert found["d"].model_dump()["subnets"] == ["one"]
    assert found["b"].model_dump()["container_runtime"] == "apptainer"


def test_a_registered_provider_keeps_its_own_options() -> None:
    loaded = load("targets: {x: {provider: nomad, datacenter: dc1}}\n", providers=("nomad",))

    assert not loaded.report.warnings
    assert loaded.manifest.targets["x"].model_extra == {"datacenter": "dc1"}


@pytest.mark.parametrize(
    ("text", "path", "code", "remedy"),
    [
        ("targets: {h: {provider: slurm, comm_port: 5}}", "targets.h.comm_port", "ignored-option", "remove it"),
        (
            "targets: {h: {provider: local, max_worker: 5}}",
            "targets.h.max_worker",
            "unknown-option",
            "write max_workers",
        ),
        (
            "targets: {h: {provider: local}}\ncomponents: {a: {memory: 1GiB}, b: {}}",
            "targets.h.processes",
            "shared-process",
            "write processes: true",
        ),
        (
            "nodes: {n: {cpu: 1, memory: 1GiB}}\npools: {p: {node: n, count: 1}}",
            "nodes.n",
            "missing-price",
            "write e.g. price: 0.1644 EUR/h",
        ),
        (
            "nodes: {n: {cpu: 1, memory: 1GiB, price: 60 EUR/month}}\npools: {p: {node: n, count: 1}}\n"
            "budget: {monthly: 200 EUR, fixed: {p: 50 EUR}}",
            "budget.fixed.p",
            "fixed-differs",
            "write EUR 60.00",
        ),
    ],
)
def test_what_works_but_is_probably_not_meant_is_warned_about(text: str, path: str, code: str, remedy: str) -> None:
    (warning,) = load(text + "\n").report.warnings

    assert (warning.path, warning.code, warning.remedy) == (path, code, remedy)
    assert warning.place.line >= 3


def test_the_first_target_is_the_default_and_one_may_be_without() -> None:
    assert load("targets: {b: {provider: local}, a: {provider: local}}\n").target == "b"
    assert load("").target is None


def test_a_target_that_is_not_there_is_wrong_use_and_names_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"no target 'clustr': the manifest has cluster; did you mean cluster\?"):
        load("targets: {cluster: {provider: local}}\n", target="clustr")
    with pytest.raises(UsageError, match="the manifest has no targets"):
        load("", target="x")


def test_a_missing_file_and_a_folder_are_wrong_use(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="scalable init  writes one"):
        load_file(tmp_path / "none.yaml", env={})
    with pytest.raises(UsageError, match="is a folder; name the manifest in it"):
        load_file(tmp_path, env={})


def test_a_loaded_manifest_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        manifest("").project.name = "other"  # type: ignore[misc]


def test_short_forms_stand_for_the_long_ones() -> None:
    short = manifest(
        "profiles: {p: {request: {cpu: 1, memory: 1GiB}, limit: {cpu: 1, memory: 2GiB}, peak: 2GiB}}\n"
        "sweeps: {s: {factor: timeframe, assets: defi_top5, run_minutes: 3}}\n"
        "workloads: {w: {workers: 1, profile: p, hours: 1}}\n"
        "scenarios: {x: {workloads: [w, w]}, y: {workloads: w}}\n"
    )
    long = manifest(
        "profiles:\n"
        "  p: {request: {cpu: 1, memory: 1GiB}, limit: {cpu: 1, memory: 2GiB}, peak: {typical: 2GiB, highest: 2GiB}}\n"
        "sweeps: {s: {factor: timeframe, assets: defi_top5, run_minutes: {p50: 3, p95: 3}}}\n"
        "workloads: {w: {workers: 1, profile: p, hours: 1}}\n"
        "scenarios: {x: {workloads: {w: 2}}, y: {workloads: {w: 1}}}\n"
    )

    assert short == long


def test_of_very_many_errors_the_first_are_listed_and_the_others_counted() -> None:
    text = "version: 1\nproject: {name: x}\ncomponents: {a: {}}\n" + "".join(f"key_{n}: 1\n" for n in range(5000))
    with pytest.raises(ManifestError) as refused:
        load_text(text, "scalable.yaml", env={})
    errors = refused.value.report.errors
    assert len(errors) == 201
    assert [error.message for error in errors if error.code == "more-errors"] == ["4800 more errors, not listed here"]


@pytest.mark.parametrize("line", ["  A: 1\n", "  V{n}: ${{UNSET_{n}}}\n"], ids=["duplicate keys", "unset variables"])
def test_of_very_many_keys_and_variables_that_are_wrong_the_first_are_listed(line: str) -> None:
    lines = "".join(line.format(n=number) for number in range(5000))
    text = f"version: 1\nproject: {{name: many}}\ncomponents:\n a:\n  env:\n{lines.replace('  ', '   ')}"
    with pytest.raises(ManifestError) as refused:
        load_text(text, env={})
    assert len(refused.value.report.errors) < 300
    assert "more-errors" in {error.code for error in refused.value.report.errors}
