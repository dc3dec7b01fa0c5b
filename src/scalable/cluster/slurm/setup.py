"""The checked set-up of a batch job: modules, a conda environment, shell lines and a preload script, before the worker.

Every step runs in the job's own shell, so that what it sets stays set, and prints into the job's log. The first command
of a step that fails ends the job: the log then has the step, the command, its exit status and what it printed, and
``failed_setup`` reads them from there. A command fails as under ``set -e``, except that commands inside functions and
inside files that a step sources are left to those: what counts is how the function or the file ends.

A virtual or conda environment that a step activates gives the Python that the worker is started with.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from scalable.observe.logs import last_lines, without_time
from scalable.wording import install_hint
from scalable.worker.options import CANNOT_START

INSTALL = install_hint(pip="{sys.executable} -m pip").removeprefix("write  ")
"""For the Python that is looked at, which fills in its own name."""
LAST_LINES = 200  # of a log, among which the set-up's failure is looked for
TOLD_LINES = 5  # of what a failed step printed


@dataclass(frozen=True, slots=True)
class SetupStep:
    """One step of a set-up."""

    key: str
    """The key of the manifest that asks for it."""
    title: str
    """What people call it."""
    shell: str
    written: bool = False
    """The shell text is the user's own, so that a command of it that fails is named."""
    files: int = 0
    """How many files deep its own commands are; those of files that it sources beyond that are not looked at."""


def steps(modules: Sequence[str], conda: str | None, setup: Sequence[str], preload: str | None) -> list[SetupStep]:
    """Return the steps in their order: modules, the conda environment, shell lines, the preload script."""
    chosen = [SetupStep("modules", f"module load {name}", load_module(name)) for name in modules]
    if conda is not None:
        chosen.append(SetupStep("conda", f"conda activate {conda}", activate_conda(conda)))
    chosen += [SetupStep("setup", first_line(text), text, written=True) for text in setup]
    if preload is not None:
        chosen.append(SetupStep("preload_script", f"source {preload}", sourced(preload), written=True, files=1))
    return chosen


def lines(todo: Sequence[SetupStep], python: str | None) -> list[str]:
    """Return the shell lines of a set-up; none if there is nothing to do.

    ``python`` is what starts the worker unless a step activates an environment; nothing if that must not change it.
    Afterwards ``$SCALABLE_PYTHON`` is what starts it.
    """
    if not todo:
        return []
    written = [PRELUDE.strip()]
    for number, step in enumerate(todo, 1):
        title = shlex.quote(f"{step.key}: {step.title}")
        written += [
            f"__scalable_text={shlex.quote(step.shell)}",
            f"__scalable_files={step.files} __scalable_named={step.written:d}",
            f"__scalable_begin {number} {len(todo)} {title}",
            '__scalable_base=$LINENO __scalable_depth=${#BASH_SOURCE[@]}; eval "$__scalable_text"',
            "set +eux; trap '__scalable_failed $?' EXIT",
        ]
    if python is not None:
        written.append(CHOOSE_PYTHON.strip().replace("@PYTHON@", shlex.quote(python)))
    written.append("trap - EXIT ERR")
    return written


PRELUDE = r"""
# set-up: what fails here is named in this job's log, and no worker is started
__scalable_virtual_env=${VIRTUAL_ENV:-} __scalable_conda_prefix=${CONDA_PREFIX:-}
__scalable_begin() {
  __scalable_step="set-up step $1 of $2" __scalable_title=$3 __scalable_command=
  printf 'scalable set-up %s/%s: %s\n' "$@" >&2
  trap '__scalable_erred $? $LINENO "$BASH_COMMAND" "${BASH_SOURCE[@]}"' ERR
}
__scalable_erred() {
  local status=$1 number=$2 command=$3 file=$4 depth=$(($# - 3 - __scalable_depth)) line
  if [ "$depth" -gt "$__scalable_files" ]; then return; fi
  if [ "$depth" -gt 0 ]; then line=$(sed -n "${number}p" "$file")
  else line=$(sed -n "$((number - __scalable_base + 1))p" <<<"$__scalable_text"); fi
  line=${line#"${line%%[![:space:]]*}"}
  __scalable_command=${line:-$command}
  exit "$status"
}
__scalable_failed() {
  local status=$1 command=
  trap - EXIT ERR
  set +eux
  if [ "$status" = 143 ]; then exit 143; fi  # had notice, which is nobody's fault
  if [ "$__scalable_named" = 1 ] && [ -n "$__scalable_command" ]; then
    case $__scalable_title in *": $__scalable_command") ;; *) command="; the command was: $__scalable_command" ;; esac
  fi
  printf 'scalable worker: cannot start: %s failed with exit status %s: %s%s\n' \
    "$__scalable_step" "$status" "$__scalable_title" "$command" >&2
  exit @CANNOT_START@
}
trap '__scalable_failed $?' EXIT
""".replace("@CANNOT_START@", str(CANNOT_START))

CHECK_PYTHON = f"""
import sys
del sys.path[0]
import importlib.util
version = ".".join(map(str, sys.version_info[:3]))
if sys.version_info < (3, 11):
    sys.exit(f"{{sys.prefix}} has Python {{version}}; scalable needs 3.11 or newer")
missing = [name for name in ("scalable", "dask", "distributed") if importlib.util.find_spec(name) is None]
if missing:
    sys.exit(f"{{sys.prefix}} has no package {{missing[0]}}; install it there: "
             f"{INSTALL}")
""".strip()

CHOOSE_PYTHON = f"""
SCALABLE_PYTHON=@PYTHON@
if [ -n "${{VIRTUAL_ENV:-}}" ] && [ "$VIRTUAL_ENV" != "$__scalable_virtual_env" ]; then
  SCALABLE_PYTHON=$VIRTUAL_ENV/bin/python
elif [ -n "${{CONDA_PREFIX:-}}" ] && [ "$CONDA_PREFIX" != "$__scalable_conda_prefix" ]; then
  SCALABLE_PYTHON=$CONDA_PREFIX/bin/python
fi
if [ "$SCALABLE_PYTHON" != @PYTHON@ ]; then
  __scalable_step="the check of the activated environment's Python" __scalable_title=$SCALABLE_PYTHON __scalable_named=0
  printf 'scalable set-up: python: %s\\n' "$SCALABLE_PYTHON" >&2
  trap - ERR
  "$SCALABLE_PYTHON" -c {shlex.quote(CHECK_PYTHON)} || exit
fi
"""

FIND_MODULE = r"""
if ! type module >/dev/null 2>&1; then
  for __scalable_file in "${LMOD_PKG:-}/init/bash" "${MODULESHOME:-}/init/bash" /etc/profile.d/lmod.sh \
      /etc/profile.d/modules.sh /usr/share/lmod/lmod/init/bash /usr/share/Modules/init/bash /usr/share/modules/init/bash
  do
    if [ -r "$__scalable_file" ]; then source "$__scalable_file" || true; fi
    if type module >/dev/null 2>&1; then break; fi
  done
fi
"""

FIND_CONDA = r"""
if [ "$(type -t conda)" != function ]; then
  for __scalable_file in "$(command -v conda || true)" "${CONDA_EXE:-}" ~/miniforge3/bin/conda ~/mambaforge/bin/conda \
      ~/miniconda3/bin/conda ~/anaconda3/bin/conda /opt/conda/bin/conda
  do
    if [ -x "$__scalable_file" ]; then eval "$("$__scalable_file" shell.bash hook)" || true; break; fi
  done
fi
"""


def load_module(name: str) -> str:
    """Return the shell text that loads a module and sees whether it was: older ``module`` programs always end well."""
    word = shlex.quote(name)
    return f"""{FIND_MODULE.strip()}
module load {word}
if [ -z "${{LMOD_CMD:-}}" ] && ! module list -t 2>&1 | grep -qF -- {word}; then
  echo "the module {name} is not among the loaded ones: ${{LOADEDMODULES:-none}}" >&2
  exit 1
fi"""


def activate_conda(name: str) -> str:
    word = shlex.quote(name)
    return f"""{FIND_CONDA.strip()}
if ! type conda >/dev/null 2>&1; then
  echo "there is no conda on this node; name the module that brings it in modules, or activate it in setup" >&2
  exit 127
fi
conda activate {word}
if [ ! -x "${{CONDA_PREFIX:-}}/bin/python" ]; then
  echo "the conda environment {name} has no Python: there is no ${{CONDA_PREFIX:-}}/bin/python" >&2
  exit 1
fi"""


def sourced(file: str) -> str:
    word = shlex.quote(file)
    missing = shlex.quote(f"the preload script {file} is not there on this node")
    return f"[ -r {word} ] || {{ echo {missing} >&2; exit 1; }}\nsource {word}"


def first_line(text: str) -> str:
    """Return what a block of shell lines is called: its first line that is no comment."""
    written = [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("#")]
    return f"{written[0]} …" if len(written) > 1 else (written or ["nothing"])[0]


BEGIN = re.compile(r"scalable set-up( \d+/\d+)?: ")
FAILED = "scalable worker: cannot start: "


def failed_setup(log: Path) -> str:
    """Return which step of a set-up failed and what it printed last, by a job's log; empty if none did."""
    lines = [without_time(line) for line in last_lines(log, LAST_LINES)]
    ends = [at for at, line in enumerate(lines) if line.startswith(FAILED)]
    if not ends:
        return ""
    begins = [at for at, line in enumerate(lines[: ends[-1]]) if BEGIN.match(line)]
    if not begins:
        return ""
    printed = list(printed_lines(lines[begins[-1] + 1 : ends[-1]]))[-TOLD_LINES:]
    return lines[ends[-1]].removeprefix(FAILED) + (f"; it printed: {'; '.join(printed)}" if printed else "")


def printed_lines(text: Sequence[str]) -> Iterator[str]:
    return (line.strip() for line in text if line.strip())
