"""What a person gets who presses Tab in a real shell."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scalable.cli.arguments import SHELLS
from scalable.cli.main import main
from tests.helpers.waiting import until

SETUP = """fpath=($PWD/functions $fpath); autoload -U compinit; compinit -u -D; \
save() { print -rn -- $BUFFER > part; mv part line }; zle -N save; bindkey '^X' save; touch ready"""
MANIFEST = "targets: {local: {}, lab: {}}\nsweeps: {calibration: {}, timeframe: {}}\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SCALABLE_MANIFEST", raising=False)
    (tmp_path / "scalable.yaml").write_text(MANIFEST, encoding="utf-8")
    assert main(["admin", "completion", "bash"]) == 0
    (tmp_path / "complete.bash").write_text(capsys.readouterr().out, encoding="utf-8")
    return tmp_path


def pressed(folder: Path, *lines: str) -> list[list[str]]:
    """What bash offers at the end of each of these lines."""
    asked = [f"ask {line if line[-1] != ' ' else line + chr(39) * 2}" for line in lines]
    script = "\n".join(
        [
            "source complete.bash",
            'ask() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()',
            "  $(complete -p scalable | sed 's/.*-F \\([^ ]*\\).*/\\1/'); echo \"${COMPREPLY[*]}\"; }",
            *asked,
        ]
    )
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script], cwd=folder, env=env, capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    return [line.split() for line in done.stdout.split("\n")[: len(lines)]]


def test_bash_completes_commands_options_choices_and_names_of_the_manifest(folder: Path) -> None:
    commands, options, choices, sweeps, one, targets = pressed(
        folder,
        "scalable re",
        "scalable plan --ob",
        "scalable forecast m",
        "scalable run --sweep ",
        "scalable decide cal",
        "scalable plan --target l",
    )
    assert {"report", "results"} <= set(commands)
    assert options == ["--objective"]
    assert choices == ["margins", "month"]
    assert sweeps == ["calibration", "timeframe"]
    assert one == ["calibration"]
    assert targets == ["local", "lab"]


def test_zsh_asks_for_names_when_it_completes_one_and_not_at_every_tab(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["admin", "completion", "zsh"]) == 0
    asking = [line for line in capsys.readouterr().out.splitlines() if "$(scalable" in line]
    assert [line.partition("(")[0] for line in asking] == ["_scalable_targets", "_scalable_sweeps"]


@pytest.mark.skipif(shutil.which("zsh") is None, reason="needs zsh")
def test_zsh_completes_options_and_names_of_the_manifest(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["admin", "completion", "zsh"]) == 0
    (folder / "functions").mkdir()
    (folder / "functions/_scalable").write_text(capsys.readouterr().out, encoding="utf-8")
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "TERM": "xterm"}
    terminal, its = os.openpty()
    with subprocess.Popen(
        ["zsh", "-f", "-i"], stdin=its, stdout=its, stderr=its, env=env, start_new_session=True
    ) as zsh:
        try:
            os.write(terminal, f"{SETUP}\n".encode())
            assert until((folder / "ready").exists)
            os.write(terminal, b"scalable run --sw\tcal\t--tar\tla\t\x18")
            assert until((folder / "line").exists)
        finally:
            zsh.kill()
            os.close(terminal)
            os.close(its)
    assert (folder / "line").read_text(encoding="utf-8") == "scalable run --sweep calibration --target lab "


@pytest.mark.parametrize("text", [None, "", "[]", "sweeps: 3", "a: [", "sweeps: {\n"])
def test_a_manifest_that_is_not_there_or_not_good_completes_nothing_and_says_nothing(
    text: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SCALABLE_MANIFEST", raising=False)
    if text is not None:
        (tmp_path / "scalable.yaml").write_text(text, encoding="utf-8")
    assert main(["admin", "completion", "sweeps"]) == 0
    assert capsys.readouterr() == ("\n", "")


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_that_is_offered_gets_a_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["admin", "completion", shell]) == 0
    assert "calibration" not in (script := capsys.readouterr().out)
    assert "incidents" in script and "scalable admin completion sweeps" in script
