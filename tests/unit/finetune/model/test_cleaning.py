"""Label cleaning: finds labels that were turned, touches few, never forks, and says once how it works."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from scalable_finetune import cleaning
from scalable_finetune.cleaning import CAP, capped, cleaned, out_of_block
from scalable_finetune.training import Training
from tests.helpers.finetune.model.builders import a_training

EVENTS = 500


def turned(classes: int = 2, share: float = 0.03, seed: int = 0) -> tuple[Training, Any]:
    """A fold whose features know the labels well, but some labels were turned."""
    training = a_training(events=EVENTS, classes=classes, signal=6.0, seed=seed, tests=10)
    wrong = np.random.default_rng(seed).random(EVENTS) < share
    target = np.where(wrong, (training.train.target + 1) % classes, training.train.target).astype(np.int8)
    return replace(training, train=replace(training.train, target=target)), wrong


@pytest.mark.parametrize("classes", [2, 3])
def test_labels_that_were_turned_are_dropped_more_often_than_others(classes: int) -> None:
    training, wrong = turned(classes)
    found = cleaned(training, cleanlab="prune", seed=0)
    gone = ~np.isin(training.train.begin, found.train.begin)
    assert 0 < gone.sum() <= CAP * EVENTS
    assert wrong[gone].mean() > 5 * wrong.mean()
    assert found.validation is training.validation
    assert found.test is training.test


def test_weighted_labels_stay_but_count_less() -> None:
    training, _ = turned()
    found, pruned = (cleaned(training, cleanlab=how, seed=0) for how in ("weight", "prune"))
    assert len(found.train) == EVENTS
    less = found.train.weight < training.train.weight
    np.testing.assert_array_equal(less, ~np.isin(training.train.begin, pruned.train.begin))
    assert (found.train.weight[less] < 0.5 * training.train.weight[less]).all()
    np.testing.assert_array_equal(found.train.weight[~less], training.train.weight[~less])


def test_of_each_class_at_most_a_twentieth_is_touched_and_the_worst_first() -> None:
    target = np.array([0] * 100 + [1] * 40)
    ranked = np.array([3, 139, 2, 1, 138, 9, 8, 7, 137, 136, 6])
    assert capped(ranked, target).tolist() == [1, 2, 3, 8, 9, 138, 139]


def test_labels_without_sense_lose_no_more_than_the_cap() -> None:
    training = a_training(events=400, signal=0.0)
    found = cleaned(training, cleanlab="prune", seed=0)
    for label in (0, 1):
        before, after = (int((each.train.target == label).sum()) for each in (training, found))
        assert before * (1 - CAP) <= after <= before


def test_a_class_that_never_occurs_leaves_the_labels_as_they_are() -> None:
    training = a_training(events=100, classes=3)
    two = replace(training, train=training.train.only(training.train.target < 2))
    assert len(cleaned(two, cleanlab="prune", seed=0).train) == len(two.train)


def test_no_model_judges_a_label_whose_time_it_has_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    import xgboost

    part = a_training(events=100).train
    seen: list[Any] = []
    matrix = xgboost.QuantileDMatrix

    def noted(data: Any, *args: Any, **kwargs: Any) -> Any:
        seen.append(data)
        return matrix(data, *args, **kwargs)

    monkeypatch.setattr(xgboost, "QuantileDMatrix", noted)
    out_of_block(part, 2, seed=0)
    blocks = np.array_split(np.arange(100), cleaning.BLOCKS)
    assert len(seen) == len(blocks)
    for block, data in zip(blocks, seen, strict=True):
        known = [int(np.flatnonzero((part.features == each).all(axis=1))[0]) for each in data]
        assert len(known) < 100 - len(block), "labels that overlap the block are left out as well"
        assert not any(
            part.begin[at] <= part.end[block].max() and part.end[at] >= part.begin[block].min() for at in known
        )


def test_cleaning_is_the_same_each_time() -> None:
    training, _ = turned()
    first, second = (cleaned(training, cleanlab="weight", seed=3).train.weight for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_cleaning_asks_for_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    library = import_module("cleanlab.filter")
    asked: list[Any] = []
    find = library.find_label_issues

    def noted(*args: Any, n_jobs: int | None = None, **kwargs: Any) -> Any:
        asked.append(n_jobs)
        return find(*args, n_jobs=n_jobs, **kwargs)

    monkeypatch.setattr(library, "find_label_issues", noted)
    cleaned(a_training(events=200), cleanlab="prune", seed=0)
    assert asked == [1]


def test_the_first_cleaning_of_a_process_says_how_it_works(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleaning, "_told", False)
    with caplog.at_level(logging.INFO, logger="scalable"):
        for _ in range(2):
            cleaned(a_training(events=100), cleanlab="prune", seed=0)
    (event,) = (json.loads(record.getMessage()) for record in caplog.records)
    assert (event["event"], event["n_jobs"], event["backend"]) == ("label-cleaning", 1, "in-process")
    assert "fork" in event["reason"]
