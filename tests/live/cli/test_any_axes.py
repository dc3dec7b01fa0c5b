"""A comparison of models over axes of one's own, from the plan to the report: right rows, and not a word of trading."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from scalable.cli.main import main

TRADING = re.compile(
    r"\b(assets?|costs?|cost_bps|bps|trials?|trades?|trading|buys?|sharpe|equity|finetune|USDC)\b", re.IGNORECASE
)
OUR_MONEY = re.compile(r"(?i)\bcosts?\b")  # of machines, of which reports and plans tell
MANIFEST = """version: 1
project: {name: bench}
targets: {local: {provider: local, max_workers: 2, processes: true}}
sweeps:
  models:
    run: bench:score
    compare: {model: [tree, forest], depth: [1, 3]}
    exclude: [{model: forest, depth: 1}]
    over: {dataset: [wine, digits], fold: {folds: 2}}
    average: {seed: 2}
    metrics: {accuracy: higher}
"""
BENCH = """
from sklearn import datasets, ensemble, tree
from sklearn.model_selection import KFold

MODELS = {"tree": tree.DecisionTreeClassifier, "forest": ensemble.ExtraTreesClassifier}


def score(model, depth, dataset, fold, seed):
    x, y = getattr(datasets, f"load_{dataset}")(return_X_y=True)
    train, test = list(KFold(2, shuffle=True, random_state=0).split(x))[fold]
    fitted = MODELS[model](max_depth=depth, random_state=seed).fit(x[train], y[train])
    return {"accuracy": float(fitted.score(x[test], y[test]))}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["scalable"])  # a report shows it, and pytest's has the names of tests
    for name in ("MANIFEST", "TARGET", "RUNS_DIR", "STORE_URL"):
        monkeypatch.delenv(f"SCALABLE_{name}", raising=False)
    (tmp_path / "scalable.yaml").write_text(MANIFEST, encoding="utf-8")
    (tmp_path / "bench.py").write_text(BENCH, encoding="utf-8")
    return tmp_path


def test_a_grid_of_models_gives_its_rows_and_no_word_of_trading(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown: dict[str, str] = {}
    for command in (
        "validate", "plan", "plan --sweep models", "run", "results", "results --all", "results --format json", "decide",
        "decide --format json", "status", "report", "report --format html --output report.html",
    ):  # fmt: skip
        status = main(command.split())
        printed = capsys.readouterr()
        shown[command] = printed.out + printed.err
        assert status == 0, f"{command}: {shown[command]}"
    shown["page"] = (folder / "report.html").read_text(encoding="utf-8")
    for command, text in shown.items():
        words = {word for word in TRADING.findall(text) if not OUR_MONEY.fullmatch(word)}
        assert not words, f"{command} says {words}"
    told = json.loads(shown["results --format json"])
    assert told["complete"] and told["expected"] == len(told["rows"]) == 3 * 2 * 2 * 2
    assert {row["variant"] for row in told["rows"]} == {"tree/1", "tree/3", "forest/3"}
    assert {row["block"] for row in told["rows"]} == {
        f"{data} fold {fold}" for data in ("wine", "digits") for fold in (0, 1)
    }
    assert main(["run", "--where", "dataset=wine"]) == 0, "which is there"
    capsys.readouterr()
    assert main(["mark-failed", "models", "--where", "fold=1", "--where", "model=tree", "--reason", "x", "--yes"]) == 0
    assert "marked 8 rows" in capsys.readouterr().out
