"""What a change makes a sweep compute again: exactly what depends on it, as the table in the documentation says."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from tests.helpers.cli.shells import shell
from tests.helpers.paths import ROOT

PAGE = ROOT / "docs/how-to/compare-anything.md"
TABLE = re.compile(r"(?<=<!-- what is computed again -->\n).*?(?=<!-- end -->)", re.DOTALL)
STAGES = ("table", "parts", "score")

EXPERIMENT = """
from pathlib import Path

import scalable


@scalable.stage
def table(dataset):
    return [float(line) for line in Path(f"data/{dataset}.csv").read_text().split()]


@scalable.stage
def parts(table, fold, width=2):
    return [value for at, value in enumerate(table) if at % width == fold % width]


def score(parts, model, penalty=1):
    return {"error": sum(parts) * {"flat": 1, "line": 2, "curve": 3}[model] + penalty}
"""
MANIFEST = """
version: 1
project: {name: again}
targets: {local: {provider: local, max_workers: 2, processes: true}}
sweeps:
  models:
    run: experiment:score
    compare: {model: [flat, line]}
    over: {dataset: [small, large], fold: {folds: 3}}
    settings: {width: 2, penalty: 1}
    inputs: [data/*.csv]
    metrics: {error: lower}
"""


def replaced(file: str, old: str, new: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        text = (folder / file).read_text(encoding="utf-8")
        assert old in text
        (folder / file).write_text(text.replace(old, new), encoding="utf-8")

    return change


CHANGES: dict[str, Callable[[Path], None]] = {
    "nothing": lambda folder: None,
    "one more compared value: `model: [flat, line, curve]`": replaced("scalable.yaml", "line]", "line, curve]"),
    "one more data set (its file was there)": replaced("scalable.yaml", "large]", "large, third]"),
    "one more fold": replaced("scalable.yaml", "folds: 3", "folds: 4"),
    "a setting that only `score` reads": replaced("scalable.yaml", "penalty: 1", "penalty: 2"),
    "a setting that `parts` reads": replaced("scalable.yaml", "width: 2", "width: 3"),
    "a line of `table`": replaced("experiment.py", "float(line)", "2 * float(line)"),
    "a line of `parts`": replaced("experiment.py", "at % width ==", "at % width !="),
    "a line of `score`": replaced("experiment.py", "+ penalty", "- penalty"),
    "a comment in `score`": replaced("experiment.py", "    return {", "    # as in the paper\n    return {"),
    "one file of `inputs`": replaced("data/small.csv", "1", "7"),
    "the direction of a metric": replaced("scalable.yaml", "lower", "higher"),
    "`max_workers`": replaced("scalable.yaml", "max_workers: 2", "max_workers: 1"),
}


def test_a_change_computes_again_exactly_what_depends_on_it(tmp_path: Path) -> None:
    base = tmp_path / "base"
    (base / "data").mkdir(parents=True)
    for name in ("small", "large", "third"):
        (base / f"data/{name}.csv").write_text("1\n2\n3\n4\n", encoding="utf-8")
    (base / "experiment.py").write_text(EXPERIMENT, encoding="utf-8")
    (base / "scalable.yaml").write_text(MANIFEST, encoding="utf-8")
    assert executed(base) == (2, 6, 12)

    lines = ["| what changed | `table` | `parts` | `score` |", "|---|---|---|---|", "| the first run | 2 | 6 | 12 |"]
    for number, (what, change) in enumerate(CHANGES.items()):
        folder = tmp_path / str(number)
        shutil.copytree(base, folder)
        change(folder)
        lines.append(f"| {what} | {' | '.join(map(str, executed(folder)))} |")
    table = "\n".join(lines) + "\n"
    if os.environ.get("RECORD_AGAIN"):
        PAGE.write_text(TABLE.sub(lambda found: table, PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    assert TABLE.findall(PAGE.read_text(encoding="utf-8")) == [table]


def executed(folder: Path) -> tuple[int, ...]:
    """Run the sweep and return how often each stage was computed."""
    done = shell("scalable run --format json", folder)
    assert done.returncode == 0, done.stderr
    counts = json.loads(done.stdout)["executed"]
    return tuple(counts.get(stage, 0) for stage in STAGES)
