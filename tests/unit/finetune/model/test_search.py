"""The search: the same in any process, the same after a stop, better than chance only where there is something."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from scalable.worker.runner.scratch import scratch_from
from scalable.worker.runner.stamp import Stamp, use
from scalable_finetune import search as searching
from scalable_finetune.search import SPACE, Trees, search
from scalable_finetune.trials import FILE, read
from tests.helpers.finetune.model.builders import a_training, searched, shuffled
from tests.helpers.finetune.model.edges import edge
from tests.helpers.finetune.model.search import TRIALS, fingerprint, undisturbed


def test_another_seed_searches_elsewhere() -> None:
    ours, others = searched(a_training()), searched(a_training(), seed=1)
    assert ours.trials[0].parameters != others.trials[0].parameters
    assert len({trial.parameters["learning_rate"] for trial in ours.trials}) == 3


class StoppedError(Exception):
    pass


@pytest.mark.parametrize("after", [1, 5, 10])
def test_a_search_that_was_stopped_ends_as_if_nothing_had_happened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    expected = undisturbed()
    grown, calls = Trees.grown, [0]

    def counted(self: Trees, parameters: dict[str, float], seed: int) -> object:
        calls[0] += 1
        if calls[0] == after + 1:
            raise StoppedError
        return grown(self, parameters, seed)

    monkeypatch.setattr(Trees, "grown", counted)
    with scratch_from(lambda: tmp_path):
        with pytest.raises(StoppedError):
            searched(a_training(), trials=TRIALS)
        with (tmp_path / FILE).open("a") as file:
            file.write('{"number": ')  # a line that a kill cut off
        resumed = searched(a_training(), trials=TRIALS)
    assert fingerprint(resumed) == expected
    again = calls[0] - (after + 1)
    assert again - (TRIALS - after) in (0, 1), "only what was missing, and perhaps the best model once more"


def test_a_finished_search_that_is_asked_again_tries_nothing_new(tmp_path: Path) -> None:
    with scratch_from(lambda: tmp_path):
        first = searched(a_training())
        written = (tmp_path / FILE).read_text()
        assert fingerprint(searched(a_training())) == fingerprint(first)
    assert (tmp_path / FILE).read_text() == written
    assert written.count("\n") == 3


@pytest.mark.parametrize("content", [b"\xff\xfe\x00 no text", b"[]\n", b'{"number": 7}\n', b""])
def test_trials_that_cannot_be_read_are_tried_again(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE).write_bytes(content)
    with scratch_from(lambda: tmp_path):
        found = searched(a_training(), trials=2)
    assert fingerprint(found) == fingerprint(searched(a_training(), trials=2))
    assert len(read(tmp_path / FILE)) == 2


def test_a_search_goes_on_where_its_trials_cannot_be_written(tmp_path: Path) -> None:
    with scratch_from(lambda: tmp_path / "gone"):
        assert len(searched(a_training(), trials=2).trials) == 2


def test_every_trial_is_a_sign_of_life() -> None:
    stamp = Stamp.create()
    use(stamp)
    try:
        searched(a_training(), trials=4)
        told = stamp.read()
    finally:
        stamp.close()
    assert (told.count, told.step, told.of, told.note) == (4, 4, 4, "trial 4/4")


def test_the_best_trial_is_the_one_with_the_lowest_score() -> None:
    found = searched(a_training(), trials=5)
    assert found.score == min(trial.score for trial in found.trials)
    best = next(trial for trial in found.trials if trial.score == found.score)
    assert (found.parameters, found.rounds) == (best.parameters, best.rounds)
    for name, (_, low, high) in SPACE.items():
        assert all(low <= trial.parameters[name] <= high for trial in found.trials)


def test_the_score_is_the_log_loss_of_the_probabilities_it_gives() -> None:
    found = searched(a_training())
    p = np.where(found.validation.bought, found.validation.probability, 1 - found.validation.probability)
    assert found.score == pytest.approx(-np.average(np.log(p), weights=found.validation.weight), rel=1e-5)


def test_the_kept_model_is_the_one_that_gave_the_probabilities() -> None:
    import xgboost

    training = a_training()
    found = searched(training)
    model = xgboost.Booster(model_file=bytearray(found.model))
    assert model.num_boosted_rounds() == found.rounds
    np.testing.assert_array_equal(model.predict(xgboost.DMatrix(training.test.features)), found.test.probability)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(("focal_loss", "label_smoothing"), [("off", 0.0), (2.0, 0.0), ("off", 0.1)])
def test_every_loss_finds_what_is_there(classes: int, focal_loss: float | str, label_smoothing: float) -> None:
    training = a_training(events=400, classes=classes, signal=1.0)
    found = search(training, trials=1, seed=0, focal_loss=focal_loss, label_smoothing=label_smoothing)
    assert edge(found) > 0.15
    assert ((found.test.probability > 0) & (found.test.probability < 1)).all()


def test_smoothed_labels_and_focal_loss_make_a_model_less_sure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "ROUNDS", 60)
    monkeypatch.setattr(searching, "PATIENCE", 60)
    parameters = {"max_depth": 4, "learning_rate": 0.15, "min_child_weight": 1.0}
    training = a_training(signal=2.0)

    def sureness(gamma: float, smoothing: float) -> float:
        trees = Trees(training, gamma, smoothing)
        model, _, _ = trees.grown(parameters, seed=0)
        return float(np.abs(trees.says(model, training.train, 60) - 0.5).mean())

    assert sureness(0.0, 0.2) < sureness(0.0, 0.0) - 0.02
    assert sureness(2.0, 0.0) < sureness(0.0, 0.0) - 0.02


def test_shuffled_labels_give_no_edge() -> None:
    """Over seeds the mean edge must lie within three standard errors of nothing; of the true labels it lies far off."""
    chance = np.array(
        [edge(searched(shuffled(a_training(seed=seed), seed), trials=1, seed=seed)) for seed in range(12)]
    )
    real = np.array([edge(searched(a_training(seed=seed), trials=1, seed=seed)) for seed in range(3)])
    error = chance.std(ddof=1) / np.sqrt(len(chance))
    assert abs(chance.mean()) < 3 * error
    assert real.mean() > 5 * error
