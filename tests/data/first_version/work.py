"""A workload of one function: rows that take no time, one of which fails."""


def score(depth: int, asset: str, fold: int) -> dict[str, float]:
    """Return made-up metrics; the last fold of the deepest variant fails."""
    if (depth, asset, fold) == (3, "b", 1):
        raise ValueError("no luck")
    return {"accuracy": 0.5 + depth / 100 + fold / 1000}
