"""Does scaling help a classifier? Tables with holes, filled in, scaled and classified, stage by stage.

Each stage names what it gets: the results of other stages first, then what it reads of a row's configuration. Filling
in takes nearly all of the time and does not depend on the scaler, so the rows of all scalers share it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets
from sklearn.impute import KNNImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import RobustScaler, StandardScaler

from scalable.sweeps.stages import stage
from scalable.sweeps.workload import Workload

SCALERS = {"standard": StandardScaler, "robust": RobustScaler}
LOADERS = {
    "breast_cancer": datasets.load_breast_cancer,
    "digits": datasets.load_digits,
    "iris": datasets.load_iris,
    "wine": datasets.load_wine,
}


@dataclass(frozen=True)
class Table:
    features: NDArray[np.float64]
    target: NDArray[np.int64]


@dataclass(frozen=True)
class Parts:
    """What a model learns from, and what it is judged by."""

    train: Table
    test: Table


@stage(reads=("dataset", "missing", "seed"), uses=("sklearn", "numpy"))
def table(*, dataset: str, missing: float, seed: int) -> Table:
    """A data set in which some of the values are missing."""
    features, target = LOADERS[dataset](return_X_y=True)
    holes = np.random.default_rng(seed).random(features.shape) < missing
    return Table(np.where(holes, np.nan, features), target)


@stage(reads=("fold", "folds", "seed"), uses=("sklearn",), keep=False)
def parts(table: Table, *, fold: int, folds: int, seed: int) -> Parts:
    splits = StratifiedKFold(folds, shuffle=True, random_state=seed).split(table.features, table.target)
    train, test = list(splits)[fold]
    return Parts(Table(table.features[train], table.target[train]), Table(table.features[test], table.target[test]))


@stage(reads=("neighbours",), uses=("sklearn", "numpy"))
def filled(parts: Parts, *, neighbours: int) -> Parts:
    """Missing values from those rows of the training part that are most alike."""
    return transformed(parts, KNNImputer(n_neighbors=neighbours, weights="distance"))


@stage(reads=("scaler",), uses=("sklearn",), unless={"scaler": "none"}, keep=False)
def scaled(filled: Parts, *, scaler: str) -> Parts:
    """Left out where the scaler is ``none``: what was filled in goes on as it is."""
    return transformed(filled, SCALERS[scaler]())


@stage(uses=("sklearn", "numpy"), keep=False)
def row(scaled: Parts) -> dict[str, float]:
    """The last stage gives the row: metrics by name."""
    train, test = scaled.train, scaled.test
    model = LogisticRegression(solver="newton-cg", max_iter=1000).fit(train.features, train.target)
    says = model.predict_proba(test.features)
    return {
        "accuracy": float(accuracy_score(test.target, model.classes_[says.argmax(axis=1)])),
        "log_loss": float(log_loss(test.target, says, labels=model.classes_)),
    }


def transformed(parts: Parts, transformer: KNNImputer | StandardScaler | RobustScaler) -> Parts:
    """Learnt from the training part alone, applied to both."""
    transformer.fit(parts.train.features)
    return Parts(
        Table(transformer.transform(parts.train.features), parts.train.target),
        Table(transformer.transform(parts.test.features), parts.test.target),
    )


WORK = Workload(
    stages=(table, parts, filled, scaled, row),
    unit="filled",  # rows that share it are computed together, in one process
    defaults={"missing": 0.1, "neighbours": 10, "folds": 5, "seed": 0},
)
