"""The set-up of a batch job in a real shell: what it leaves, and what its log says of a step that fails."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

import pytest

from scalable.cluster.slurm.setup import failed_setup, lines, steps
from scalable.worker.options import CANNOT_START

WORKER = "exec \"$SCALABLE_PYTHON\" -c \"import os, sys; print('worker of', sys.prefix, os.environ.get('PLACE'))\""
MODULES = """
module() {
  case "$1 $2" in
    "load gcc/12") export LOADEDMODULES=${LOADEDMODULES:+$LOADEDMODULES:}gcc/12 PLACE=gcc ;;
    "load silent/1") echo "ModuleCmd_Load.c(213):ERROR:105: Unable to locate a modulefile for 'silent/1'" >&2 ;;
    load*) echo "Lmod has detected the following error: The following module(s) are unknown: \\"$2\\"" >&2; return 1 ;;
    list*) echo "${LOADEDMODULES:-}" | tr : '\\n' >&2 ;;
  esac
}
"""
"""Modules as sites have them, a shell function; of one that is missing its status does not say so."""
CONDA = """
conda() {
  if [ ! -d "$2" ]; then echo "EnvironmentNameNotFound: Could not find conda environment: $2" >&2; return 1; fi
  export CONDA_PREFIX=$2
}
"""


class Shell:
    """Runs a set-up as a batch job does, with a log."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "job.log"
        (folder / "init").mkdir()
        (folder / "init" / "bash").write_text(MODULES)

    def run(
        self, *, modules: tuple[str, ...] = (), conda: str | None = None, setup: tuple[str, ...] = (),
        preload: str | None = None, before: str = "",
    ) -> int:  # fmt: skip
        text = "\n".join([before, *lines(steps(modules, conda, setup, preload), sys.executable), WORKER, ""])
        (self.folder / "job.sh").write_text(text)
        env = {"PATH": "/usr/bin:/bin", "MODULESHOME": str(self.folder), "HOME": str(self.folder)}
        with self.log.open("w") as log:
            command = ["bash", "job.sh"]
            return subprocess.run(command, cwd=self.folder, env=env, stdout=log, stderr=log, timeout=60).returncode

    @property
    def told(self) -> str:
        return failed_setup(self.log)


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def test_what_steps_set_is_there_when_the_worker_starts(shell: Shell) -> None:
    (shell.folder / "pre.sh").write_text("export PLACE=$PLACE-preload\n")
    status = shell.run(modules=("gcc/12",), setup=("export PLACE=$PLACE-setup",), preload="./pre.sh")
    assert status == 0
    assert f"worker of {sys.prefix} gcc-setup-preload" in shell.log.read_text()
    assert shell.told == ""


@pytest.mark.parametrize(
    ("module", "printed"), [("gcc/99", "Lmod has detected the following error"), ("silent/1", "ERROR:105: Unable to")]
)
def test_a_module_that_is_not_there_is_named_with_what_the_site_says(shell: Shell, module: str, printed: str) -> None:
    assert shell.run(modules=("gcc/12", module)) == CANNOT_START
    assert shell.told.startswith(
        f"set-up step 2 of 2 failed with exit status 1: modules: module load {module}; it printed: "
    )
    assert printed in shell.told
    assert "worker of" not in shell.log.read_text()


def test_a_site_without_modules_is_told_apart(shell: Shell) -> None:
    (shell.folder / "init" / "bash").unlink()
    assert shell.run(modules=("gcc/12",)) == CANNOT_START
    assert "exit status 127: modules: module load gcc/12" in shell.told
    assert "module: command not found" in shell.told


@pytest.mark.parametrize(
    ("setup", "status", "command"),
    [
        ("set -e; false", 1, ""),
        ("export A=1\nls /no/such/folder\necho later", 2, "; the command was: ls /no/such/folder"),
        ("load() { echo no >&2; return 7; }\nload one two\necho later", 7, "; the command was: load one two"),
        ("exit 5", 5, ""),
        ("cd /no/such/folder && ls", 1, ""),
        ("set -u; echo $NOTHING", 1, ""),
        ("if then", 2, ""),
        ("source ./no-such-file.sh", 1, ""),
        ("bash -c 'kill -SEGV $$'", 139, ""),
    ],
)
def test_a_command_of_the_setup_that_fails_ends_it_and_is_named(
    shell: Shell, setup: str, status: int, command: str
) -> None:
    assert shell.run(setup=(setup,)) == CANNOT_START
    assert shell.told.startswith(f"set-up step 1 of 1 failed with exit status {status}: setup: {setup.splitlines()[0]}")
    assert command in shell.told
    assert "later" not in shell.log.read_text()


@pytest.mark.parametrize(
    "setup",
    [
        "grep -q nothing /etc/passwd || export A=1",
        "if grep -q nothing /etc/passwd; then exit 1; fi",
        "careless() { false; true; }\ncareless",
        "printf 'false\\ntrue\\n' > careless.sh\nsource ./careless.sh",
        "false | true",
        "set -eu",
        "trap 'echo mine' EXIT",
    ],
)
def test_what_a_careful_script_may_do_does_not_fail(shell: Shell, setup: str) -> None:
    assert shell.run(setup=(setup,), modules=("gcc/12",)) == 0
    assert "worker of" in shell.log.read_text()


def test_a_failing_command_of_a_preload_script_is_named_with_its_own_line(shell: Shell) -> None:
    (shell.folder / "pre.sh").write_text(
        f"{MODULES}\necho preparing\n  module load gcc/99  # the compiler\necho later\n"
    )
    assert shell.run(preload="./pre.sh") == CANNOT_START
    assert (
        "set-up step 1 of 1 failed with exit status 1: preload_script: source ./pre.sh; the command was: " in shell.told
    )
    assert "the command was: module load gcc/99  # the compiler; it printed: preparing; Lmod has detected" in shell.told


def test_a_preload_script_that_the_node_does_not_have_is_named(shell: Shell) -> None:
    assert shell.run(preload="/no/such/pre.sh") == CANNOT_START
    assert "the preload script /no/such/pre.sh is not there on this node" in shell.told


def test_an_activated_environment_gives_the_python_of_the_worker(shell: Shell) -> None:
    home = shell.folder / "env"
    venv.create(home, system_site_packages=True, with_pip=False)
    (packages,) = home.glob("lib/python*/site-packages")
    (packages / "own.pth").write_text("\n".join(path for path in sys.path if path))
    assert shell.run(setup=(f"source {home}/bin/activate",)) == 0
    assert f"worker of {home}" in shell.log.read_text()
    assert shell.run(conda=str(home), before=CONDA) == 0
    assert f"worker of {home}" in shell.log.read_text()


def test_an_environment_without_the_package_is_refused_with_what_to_install(shell: Shell) -> None:
    home = shell.folder / "env"
    venv.create(home, with_pip=False)
    assert shell.run(setup=(f"source {home}/bin/activate",)) == CANNOT_START
    assert f"{home} has no package scalable; install it there: {home}/bin/python -m pip install" in shell.told


def test_a_conda_environment_that_is_not_there_is_named(shell: Shell) -> None:
    assert shell.run(conda="/no/such/env", before=CONDA) == CANNOT_START
    assert "exit status 1: conda: conda activate /no/such/env; it printed: EnvironmentNameNotFound" in shell.told


def test_a_node_without_conda_is_told_apart(shell: Shell) -> None:
    assert shell.run(conda="model") == CANNOT_START
    assert "there is no conda on this node; name the module that brings it in modules" in shell.told


def test_an_environment_folder_without_python_is_refused(shell: Shell) -> None:
    (shell.folder / "empty").mkdir()
    assert shell.run(conda=str(shell.folder / "empty"), before=CONDA) == CANNOT_START
    assert "has no Python" in shell.told
