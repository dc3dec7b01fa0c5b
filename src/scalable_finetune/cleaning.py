"""Label cleaning: labels that a model of other times holds for very unlikely are dropped or count less.

The model is a small one, fitted on all blocks of the training part but one, without the labels that overlap that block,
and asked about it. cleanlab then says which labels are issues; of each class at most ``CAP`` of them are touched. It is
told to use one process: its pool would fork a process that may have threads, and forked children of such can hang.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from scalable.workloads import note, stage
from scalable_finetune.extras import needed
from scalable_finetune.training import Floats, Indices, Part, Training

CAP = 0.05  # of each class at most; a label that surprises is more often rare than wrong
BLOCKS = 5  # of the training part, each judged by a model of the others
ROUNDS = 40  # trees of the small model, of settings that nobody tunes
TREES = {"max_depth": 3, "learning_rate": 0.1, "subsample": 0.8, "colsample_bytree": 0.5, "max_bin": 64}
REASON = "a pool would fork a process that may have threads, and its children can hang"

_told = False


@stage(reads=("cleanlab", "seed"), uses=("cleanlab", "scikit-learn", "xgboost", "numpy"), unless={"cleanlab": "off"})
def cleaned(training: Training, *, cleanlab: str, seed: int) -> Training:
    """With ``prune`` the issues go, with ``weight`` they count by how likely their label is held to be."""
    tell()
    train = training.train
    probabilities = out_of_block(train, training.classes, seed)
    issues = capped(ranked_issues(train.target, probabilities), train.target)
    if cleanlab == "prune":
        kept = np.ones(len(train), dtype=bool)
        kept[issues] = False
        return replace(training, train=train.only(kept))
    weight = train.weight.copy()
    weight[issues] *= probabilities[issues, train.target[issues]]
    return replace(training, train=replace(train, weight=weight))


def ranked_issues(target: Any, probabilities: Floats) -> Indices:
    """Positions of labels that are probably wrong, the worst first; none where a class was never seen."""
    present = np.bincount(target, minlength=probabilities.shape[1])
    if not present.all():
        return np.zeros(0, dtype=np.int64)
    find = needed("cleanlab.filter").find_label_issues
    found = find(target.astype(np.int64), probabilities, return_indices_ranked_by="self_confidence", n_jobs=1)
    return np.asarray(found, dtype=np.int64)


def capped(ranked: Indices, target: Any) -> Indices:
    """The worst of each class, at most the share of it that may be touched; in order of time."""
    allowed = np.floor(CAP * np.bincount(target)).astype(int)
    return np.sort(np.concatenate([ranked[target[ranked] == label][:most] for label, most in enumerate(allowed)]))


def out_of_block(part: Part, classes: int, seed: int) -> Floats:
    """For each event the probabilities of its classes, by a model that knows nothing of its time."""
    xgboost = needed("xgboost")
    found = np.full((len(part), classes), 1 / classes)
    kind = {"objective": "binary:logistic"} if classes == 2 else {"objective": "multi:softprob", "num_class": classes}
    settings = {**TREES, **kind, "tree_method": "hist", "nthread": 1}
    for number, block in enumerate(np.array_split(np.arange(len(part)), BLOCKS)):
        if not len(block):
            continue
        first, last = part.begin[block].min(), part.end[block].max()
        others = np.flatnonzero((part.end < first) | (part.begin > last))
        if not len(others):
            continue
        known = part.only(others)
        matrix = xgboost.QuantileDMatrix(
            known.features, known.target, weight=known.weight, max_bin=TREES["max_bin"], nthread=1
        )
        model = xgboost.train({**settings, "seed": seed + number}, matrix, ROUNDS)
        said = np.asarray(model.predict(xgboost.DMatrix(part.features[block], nthread=1)), dtype=np.float64)
        found[block] = said if classes > 2 else np.column_stack((1 - said, said))
    return np.asarray(found / found.sum(axis=1, keepdims=True))


def tell() -> None:
    """Say once per process how cleaning is done."""
    global _told
    if not _told:
        _told = True
        note("label-cleaning", n_jobs=1, backend="in-process", reason=REASON)
