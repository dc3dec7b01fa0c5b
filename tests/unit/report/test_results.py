"""What sweeps gave, on the page: the verdict of ``scalable decide`` with its figures, and what is said without it."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from scalable.show.console.sections import dead_letters
from scalable.show.report import material, result_sections
from tests.helpers.report.builders import Read, made, run_of, sweep_run
from tests.helpers.sweeps.gates.builders import a_cell
from tests.helpers.sweeps.gates.stores import drop_all

GAINS = {"isotonic": {"sharpe": 2.0, "sortino": 2.0}, "sigmoid": {"sharpe": -2.0}}
GONE = a_cell("sigmoid", "OPUSDC", 4, 30.0)


@pytest.fixture(autouse=True)
def own_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SCALABLE_STORE_URL", raising=False)


def test_the_verdict_comes_first_and_has_its_statistics(tmp_path: Path) -> None:
    found = Read(made(sweep_run(tmp_path, GAINS)))
    assert found.titles[:5] == ["Summary", "Verdict", "Effects", "Heat map", "Metrics"]
    assert "Lock calibration = isotonic: sharpe is proven better than with none." in found.said("Summary")
    assert "ABANDON sigmoid" in found.said("Summary") and "all 150 rows are there" in found.said("Summary")
    told = found.said("Verdict")
    assert "LOCK needs all of" in told and "sharpe better (Holm p < 0.05)" in told
    assert "▲ sharpe primary" in told and "▼ sharpe primary" in told
    assert "t over 5 assets, averaged over 5 folds" in told and "Holm" in told
    assert "none (baseline)" in found.said("Metrics") and "50 / 50" in found.said("Metrics")


def test_what_is_left_out_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = sweep_run(tmp_path, GAINS)
    whole = Read(made(folder))
    assert "All 150 rows" in whole.said("Metrics") and "metrics are drawn" not in whole.said("Effects")
    monkeypatch.setattr(result_sections, "MOST_ROWS", 100)
    monkeypatch.setattr(result_sections, "MOST_METRICS", 3)
    found = Read(made(folder))
    assert "The first 100 of 150 rows" in found.said("Metrics") and "All 150" not in found.said("Metrics")
    assert "The first 3 of 8 metrics are drawn" in found.said("Effects")


def test_the_best_of_a_metric_is_what_the_sweep_calls_better(tmp_path: Path) -> None:
    folder, manifest = sweep_run(tmp_path, GAINS), tmp_path / "scalable.yaml"
    assert best(made(folder), "sharpe") == ["isotonic"]
    text = manifest.read_text(encoding="utf-8")
    manifest.write_text(text.replace("costs_bps: [10, 30],", "costs_bps: [10, 30], metrics: {sharpe: lower},"))
    assert best(made(folder), "sharpe") == ["sigmoid"]


def best(text: str, metric: str) -> list[str]:
    """Variants whose mean is marked as the best one."""
    [table] = re.findall(r"<caption>Means over.*?</table>", text, flags=re.DOTALL)
    variants = re.findall(r'<th scope="col" class="figure">(\w+)', table)
    [row] = re.findall(rf'<th scope="row">{metric}</th>(.*?)</tr>', table)
    cells = re.findall(r"<td.*?</td>", row)
    return [variant for variant, cell in zip(variants, cells, strict=True) if 'class="good"' in cell]


def test_where_rows_are_missing_or_failed_nothing_is_decided(tmp_path: Path) -> None:
    found = Read(made(sweep_run(tmp_path, GAINS, failing=lambda cell: cell == GONE)))
    assert "149 of 150 rows are there" in found.said("Summary")
    assert "inconclusive sigmoid" in found.said("Summary")
    assert "nothing is decided about variants that lack some" in found.said("Verdict")
    assert "1 row failed: sigmoid OPUSDC fold 4 cost_bps 30" in found.said("Metrics")
    assert "killed: out of memory" in found.said("Metrics")


def test_rows_that_do_not_count_leave_no_verdict(tmp_path: Path) -> None:
    folder = sweep_run(tmp_path)
    drop_all(tmp_path)
    found = Read(made(folder))
    assert "No row has finished" in found.said("Summary")
    assert "Verdict" not in found.titles and "Heat map" not in found.titles


def test_a_report_is_made_anywhere_the_runs_own_folder_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = sweep_run(tmp_path, GAINS)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert "Lock calibration = isotonic" in Read(made(folder)).said("Summary")
    assert list(elsewhere.iterdir()) == []


def test_a_store_that_is_not_there_is_told_of_and_not_made(tmp_path: Path) -> None:
    folder = sweep_run(tmp_path)
    store = tmp_path / ".scalable/results.db"
    store.unlink()
    found = Read(made(folder))
    assert f"The results cannot be read: no store at {store}" in found.said("Summary")
    assert "Timeline" in found.titles and "Provenance" in found.titles
    assert not store.exists()


def test_a_store_that_cannot_be_read_is_told_of(tmp_path: Path) -> None:
    folder = sweep_run(tmp_path)
    for part in (tmp_path / ".scalable").glob("results.db*"):
        part.unlink()
    (tmp_path / ".scalable/results.db").write_bytes(b"no database" * 100)
    assert "The results cannot be read: store" in Read(made(folder)).said("Summary")


def test_a_manifest_that_is_gone_or_broken_is_told_of(tmp_path: Path) -> None:
    folder = sweep_run(tmp_path)
    manifest = tmp_path / "scalable.yaml"
    manifest.write_text("version: [", encoding="utf-8")
    assert "The results cannot be read" in Read(made(folder)).said("Summary")
    manifest.unlink()
    assert f"The results cannot be read: cannot read {manifest}" in Read(made(folder)).said("Summary")


def test_no_code_of_another_users_run_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = sweep_run(tmp_path, GAINS)
    if os.geteuid() == 0:
        os.chown(folder.run_file, 12345, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
    monkeypatch.setattr(material, "load_file", lambda *_, **__: pytest.fail("its manifest was read"))
    found = Read(made(folder))
    assert f"The results cannot be read: {folder.run_id} is another user's" in found.said("Summary")
    assert "Timeline" in found.titles
    assert dead_letters(folder) is None


def test_code_that_cannot_be_imported_is_told_of(tmp_path: Path) -> None:
    folder = sweep_run(tmp_path)
    text = (tmp_path / "scalable.yaml").read_text(encoding="utf-8").replace("toy:score", "broken_toy:score")
    (tmp_path / "scalable.yaml").write_text(text, encoding="utf-8")
    (tmp_path / "broken_toy.py").write_text("raise RuntimeError('no licence')\n", encoding="utf-8")
    told = Read(made(folder)).said("Summary")
    assert "broken_toy:score cannot be imported" in told and "RuntimeError: no licence" in told


def test_a_sweep_that_the_manifest_no_longer_has_is_told_of(tmp_path: Path) -> None:
    sweep_run(tmp_path)
    assert "'gone'" in Read(made(run_of(tmp_path, "gone"))).said("Summary")


def test_provenance_has_seeds_settings_and_the_manifest(tmp_path: Path) -> None:
    found = Read(made(sweep_run(tmp_path)))
    told = found.said("Provenance")
    assert "toy:score" in told and "AAVEUSDC, UNIUSDC" in told
    assert "factor: calibration, assets:" in told, "the manifest itself"
    assert "it was changed after the run began" in told, "its file is younger than this made-up run"
