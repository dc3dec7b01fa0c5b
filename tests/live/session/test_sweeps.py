"""A sweep on a real local cluster: nothing twice, nothing lost, nothing called complete that is not."""

from __future__ import annotations

from tests.helpers.session.sweeps import CODE, Sweeps, sweeps

__all__ = ["sweeps"]


def test_changed_code_is_computed_anew_beside_what_was_there(sweeps: Sweeps) -> None:
    sweeps.run()
    sweeps.rewrite("table[0] * depth", "10 * table[0] * depth")
    told: list[str] = []
    outcome = sweeps.session().run_sweep("trial", tell=told.append)
    assert outcome.computed == 24
    assert told == ["24 rows that were there are of another version and are computed anew: the code of fitted changed"]
    assert sorted({row.metrics["score"] for row in sweeps.rows()})[-1] == 60.0
    assert sum(line.startswith("table") for line in sweeps.executed()) == 3, "a stage before the change is kept"


def test_code_that_is_edited_while_its_sweep_waits_gives_no_rows_under_the_old_keys(sweeps: Sweeps) -> None:
    session = sweeps.session(variants=[1], assets=["A"], folds=1)
    with session.open_store() as store:
        session.compile("trial", store)  # imports the code as it is now
    edited = CODE.replace("table[0] * depth", "10 * table[0] * depth")
    (sweeps.project.folder / f"{sweeps.module}.py").write_text(edited, encoding="utf-8")
    outcome = session.run_sweep("trial")
    assert outcome.finished == 0 and len(outcome.failed) == 2
    assert all("stage fitted is not the one this sweep was started with" in why for why in outcome.failed.values())
    assert sweeps.executed() == ["table A"]
