"""Discovery: several families of models screened over a universe of assets, on the stages of the trading workload.

A family has a few candidates that nobody tunes any further; the one with the lowest log loss on the validation part
stands for it. What follows is as for a searched model, so the stage has the search's name and gives what it gives. A
sweep of it is one of the factor ``model`` with families as variants and ``run: scalable_finetune.discovery:WORKLOAD``.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from scalable.workloads import progress, stage
from scalable_finetune.extras import needed
from scalable_finetune.search import Search, Trees, own_seed, scored
from scalable_finetune.settings import MODELS, SettingError
from scalable_finetune.training import Floats, Part, Training
from scalable_finetune.trials import Trial
from scalable_finetune.workload import WORKLOAD as SEARCHED

TREES = 150  # of a forest: more change its probabilities by less than the labels' noise
STEPS = 2000  # in which a logistic regression has long settled
IMPROBABLE = 1e-9  # the log loss of a forest whose trees all agree and are wrong is high, not infinite

Candidate = dict[str, float]
CANDIDATES: dict[str, tuple[Candidate, ...]] = {
    "xgboost": tuple({"max_depth": depth, "learning_rate": 0.05, "subsample": 0.7} for depth in (2, 3, 4)),
    "logistic": tuple({"C": strength} for strength in (0.001, 0.01, 0.1)),
    "random_forest": tuple({"min_samples_leaf": least} for least in (10, 30)),
    "extra_trees": tuple({"min_samples_leaf": least} for least in (10, 30)),
}


@stage(reads=("model", "seed"), uses=("xgboost", "scikit-learn", "scipy", "numpy"))
def search(cleaned: Training, *, model: str, seed: int) -> Search:
    if model not in CANDIDATES:
        raise SettingError(f"model: {model!r} is not known; choose one of {', '.join(MODELS)}")
    grown = boosted(cleaned) if model == "xgboost" else fitted(cleaned, model)
    found = []
    with needed("threadpoolctl").threadpool_limits(1):  # sums in another order are other sums
        for number, candidate in enumerate(CANDIDATES[model]):
            fit, says, rounds, score = grown(candidate, own_seed(seed, number, 1))
            found.append((Trial(number, candidate, score, rounds), fit, says))
            progress(number + 1, len(CANDIDATES[model]), f"{model} {number + 1}/{len(CANDIDATES[model])}")
        best, fit, says = min(found, key=lambda each: (each[0].score, each[0].number))
        validation, test = says(cleaned.validation), says(cleaned.test)
    return Search(
        parameters=best.parameters,
        rounds=best.rounds,
        score=best.score,
        trials=tuple(trial for trial, _, _ in found),
        model=fit,
        validation=scored(cleaned.validation, validation, cleaned.classes),
        test=scored(cleaned.test, test, cleaned.classes),
        break_even=cleaned.break_even,
    )


Says = Callable[[Part], Floats]
Grown = Callable[[Candidate, int], tuple[bytes, Says, int, float]]


def boosted(training: Training) -> Grown:
    trees = Trees(training, gamma=0.0, smoothing=0.0)

    def grown(candidate: Candidate, seed: int) -> tuple[bytes, Says, int, float]:
        booster, rounds, score = trees.grown(candidate, seed)
        kept = bytes(booster[:rounds].save_raw("ubj"))
        return kept, lambda part: trees.says(booster, part, rounds), rounds, score

    return grown


def fitted(training: Training, family: str) -> Grown:
    """scikit-learn's: gaps are filled with medians of the training part; scaled where the scale matters."""
    train, validation = training.train, training.validation

    def grown(candidate: Candidate, seed: int) -> tuple[bytes, Says, int, float]:
        model = pipeline(family, candidate, seed)
        model.fit(train.features, train.target, last__sample_weight=train.weight)

        def every(part: Part) -> Floats:
            """A column per class, of noughts where the training part has none of it."""
            known = np.zeros((len(part), training.classes))
            known[:, model.classes_] = model.predict_proba(part.features)
            return known

        right = np.maximum(every(validation)[np.arange(len(validation)), validation.target], IMPROBABLE)
        score = float(-np.average(np.log(right), weights=validation.weight))
        return pickle.dumps(model, protocol=5), lambda part: every(part)[:, -1], 0, score

    return grown


def pipeline(family: str, candidate: Candidate, seed: int) -> Any:
    filled = needed("sklearn.impute").SimpleImputer(strategy="median", keep_empty_features=True)
    scaled = needed("sklearn.preprocessing").StandardScaler()
    steps: list[tuple[str, Any]] = [("filled", filled)]
    if family == "logistic":
        last = needed("sklearn.linear_model").LogisticRegression(**candidate, max_iter=STEPS)
        steps.append(("scaled", scaled))
    else:
        forests = needed("sklearn.ensemble")
        kind = forests.RandomForestClassifier if family == "random_forest" else forests.ExtraTreesClassifier
        last = kind(TREES, **candidate, random_state=seed, n_jobs=1)
    return needed("sklearn.pipeline").Pipeline([*steps, ("last", last)])


WORKLOAD = replace(SEARCHED, stages=tuple(search if each.name == search.name else each for each in SEARCHED.stages))
