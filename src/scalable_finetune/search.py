"""The search for hyper-parameters: boosted trees, tuned trial by trial on the validation part of a fold.

Every trial has seeds of its own, made of the sweep's seed and the trial's number: one for what it tries next, which
otherwise follows from the trials before it alone, and one for its trees. So a search that was stopped goes on from
the trials it has written down and ends as if nothing had happened. One thread, since sweeps have more searches than
machines have cores; the quantised matrix is made once and serves all trials.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalable.workloads import progress, scratch, stage
from scalable_finetune.extras import needed
from scalable_finetune.losses import objective, smoothed
from scalable_finetune.training import Floats, Indices, Part, Training
from scalable_finetune.trials import Trial, Trials

ROUNDS = 300  # trees at most; early stopping ends nearly every trial before
PATIENCE = 50  # trees without a better score after which a trial ends
BINS = 64  # of each feature: noisy labels do not tell more of them apart, and 256 cost three times as much
STARTUP = 8  # trials drawn at random before the sampler has something to go by
SPACE: dict[str, tuple[str, float, float]] = {
    "max_depth": ("int", 2, 5),  # deeper ones learn some hundred noisy events by heart
    "learning_rate": ("log", 0.01, 0.1),
    "min_child_weight": ("log", 1.0, 30.0),
    "subsample": ("float", 0.5, 1.0),
    "colsample_bytree": ("float", 0.3, 1.0),
    "reg_lambda": ("log", 0.1, 30.0),
}


@dataclass(frozen=True, slots=True)
class Scored:
    """What a model says of the events of one part."""

    probability: Floats
    """Of BUY."""
    bought: NDArray[np.bool_]
    """Whether BUY was right."""
    weight: Floats
    event: Indices
    """The bar at whose end it is said."""


@dataclass(frozen=True, slots=True)
class Search:
    parameters: dict[str, float]
    """Of the best trial."""
    rounds: int
    """How many trees it has."""
    score: float
    """Its log loss on the validation part."""
    trials: tuple[Trial, ...]
    model: bytes
    """XGBoost's own format (ubj), or a pickle where another family was screened."""
    validation: Scored
    test: Scored
    break_even: float
    """See ``Training``."""


@stage(reads=("trials", "seed", "focal_loss", "label_smoothing"), uses=("xgboost", "optuna", "numpy"))
def search(cleaned: Training, *, trials: int, seed: int, focal_loss: float | str, label_smoothing: float) -> Search:
    gamma = 0.0 if focal_loss == "off" else float(focal_loss)
    trees = Trees(cleaned, gamma, float(label_smoothing))
    written = Trials(scratch(), at_most=trials)
    sampler = Sampler(written.known)
    models: dict[int, Any] = {}
    for number in range(len(written.known), trials):
        parameters = sampler.suggest(own_seed(seed, number, 0))
        model, rounds, score = trees.grown(parameters, own_seed(seed, number, 1))
        sampler.learn(score)
        written.add(Trial(number, parameters, score, rounds))
        if written.best.number == number:
            models = {number: model}
        progress(number + 1, trials, f"trial {number + 1}/{trials}")
    chosen = written.best
    model = models.get(chosen.number)
    if model is None:  # it was found before the search was stopped
        model, _, _ = trees.grown(chosen.parameters, own_seed(seed, chosen.number, 1))
    return Search(
        parameters=chosen.parameters,
        rounds=chosen.rounds,
        score=chosen.score,
        trials=tuple(written.known),
        model=bytes(model[: chosen.rounds].save_raw("ubj")),
        validation=scored(cleaned.validation, trees.says(model, cleaned.validation, chosen.rounds), cleaned.classes),
        test=scored(cleaned.test, trees.says(model, cleaned.test, chosen.rounds), cleaned.classes),
        break_even=cleaned.break_even,
    )


def own_seed(seed: int, number: int, purpose: int) -> int:
    """A seed for one purpose of one trial."""
    return int(np.random.SeedSequence((seed, number, purpose)).generate_state(1)[0] >> 1)  # XGBoost's are 31 bit


def scored(part: Part, probability: Floats, classes: int) -> Scored:
    return Scored(probability, part.target == classes - 1, part.weight, part.begin)


class Trees:
    """Grows boosted trees on one fold, again and again with other parameters."""

    def __init__(self, training: Training, gamma: float, smoothing: float) -> None:
        self.xgboost = needed("xgboost")
        train, validation, classes = training.train, training.validation, training.classes
        self.objective = objective(train.target, train.weight, classes, gamma, smoothing)
        target = train.target.astype(np.float64)
        if smoothing > 0 and classes == 2:
            target = smoothed(train.target, classes, smoothing)[:, 1]
        matrix = self.xgboost.QuantileDMatrix
        self.train = matrix(train.features, target, weight=train.weight, max_bin=BINS, nthread=1)
        self.validation = matrix(
            validation.features, validation.target, weight=validation.weight, max_bin=BINS, nthread=1, ref=self.train
        )
        kind = {"objective": "binary:logistic", "eval_metric": "logloss"}
        if classes > 2:
            kind = {"objective": "multi:softprob", "eval_metric": "mlogloss"}
        # Every loss starts from what is known before any tree; XGBoost would estimate it only for its own losses.
        start = float(np.clip(np.average(target, weights=train.weight), 0.01, 0.99)) if classes == 2 else 0.5
        self.classes = classes
        self.settings: dict[str, Any] = {
            **kind,
            **({"num_class": classes} if classes > 2 else {}),
            "base_score": start,
            "tree_method": "hist",
            "max_bin": BINS,
            "nthread": 1,
        }

    def grown(self, parameters: dict[str, float], seed: int) -> tuple[Any, int, float]:
        """The trees, how many of them are best on the validation part, and the log loss there."""
        booster = self.xgboost.train(
            {**self.settings, **parameters, "seed": seed},
            self.train,
            ROUNDS,
            evals=[(self.validation, "validation")],
            obj=self.objective,
            early_stopping_rounds=PATIENCE,
            verbose_eval=False,
        )
        return booster, booster.best_iteration + 1, float(booster.best_score)

    def says(self, booster: Any, part: Part, rounds: int) -> Floats:
        """The probability of BUY."""
        matrix = self.xgboost.DMatrix(part.features, nthread=1)
        found = np.asarray(booster.predict(matrix, iteration_range=(0, rounds)), dtype=np.float64)
        return found if self.classes == 2 else found[:, -1]


class Sampler:
    """Suggests parameters: a tree-structured Parzen estimator whose state is the trials it has learnt from."""

    def __init__(self, known: list[Trial]) -> None:
        self.optuna = needed("optuna")
        self.optuna.logging.set_verbosity(self.optuna.logging.ERROR)
        kinds = self.optuna.distributions
        self.space = {
            name: kinds.IntDistribution(int(low), int(high))
            if kind == "int"
            else kinds.FloatDistribution(low, high, log=kind == "log")
            for name, (kind, low, high) in SPACE.items()
        }
        self.study = self.optuna.create_study()
        for trial in known:
            done = self.optuna.trial.create_trial(params=trial.parameters, distributions=self.space, value=trial.score)
            self.study.add_trial(done)
        self.asked: Any = None

    def suggest(self, seed: int) -> dict[str, float]:
        """What to try next; say with ``learn`` how it went."""
        self.study.sampler = self.optuna.samplers.TPESampler(seed=seed, n_startup_trials=STARTUP, multivariate=True)
        self.asked = self.study.ask(self.space)
        return dict(self.asked.params)

    def learn(self, score: float) -> None:
        self.study.tell(self.asked, score)
