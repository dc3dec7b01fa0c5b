"""The environment variables and the import path that processes of ours start with.

Thread pools are sized to the CPUs of a slot, whatever the worker's own variables say. Those cannot be trusted: Dask's
nanny sets some to 1, sbatch brings along those of the login node, images set what suited their author, and none of them
knows how many runs share the worker. Whoever wants another number says so where it belongs, in the component's ``env``,
which wins over all.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

GRPC_VARIABLES = ("GRPC_ENABLE_FORK_SUPPORT", "GRPC_POLL_STRATEGY")
GRPC_DEFAULT = {"GRPC_ENABLE_FORK_SUPPORT": "0"}  # with 1 gRPC may hang inside os.fork, unset it may crash the child
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",  # OpenMP: XGBoost, LightGBM, scikit-learn, PyTorch, Arrow
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMEXPR_MAX_THREADS",  # numexpr refuses a number above it
    "NUMBA_NUM_THREADS",  # whichever of TBB, OpenMP or its own it runs on
    "POLARS_MAX_THREADS",
    "RAYON_NUM_THREADS",
    "TF_NUM_INTRAOP_THREADS",
    "LOKY_MAX_CPU_COUNT",  # what joblib's n_jobs=-1 means
    "PYTHON_CPU_COUNT",  # what os.cpu_count() says, from Python 3.13 on: the default size of executors and pools
)
DASK_TRIM = ("MALLOC_TRIM_THRESHOLD_", "65536")  # Dask's nanny sets it for workers; it slows down allocating code


def child_environment(
    base: Mapping[str, str],
    *,
    cpus: float,
    grpc: Mapping[str, str] | None = None,
    extra: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return a runner's environment: the worker's, gRPC's variables, thread pools, then the component's own."""
    dropped = {*GRPC_VARIABLES, *THREAD_VARIABLES}
    if base.get(DASK_TRIM[0]) == DASK_TRIM[1]:
        dropped.add(DASK_TRIM[0])
    return {
        **{name: value for name, value in base.items() if name not in dropped},
        **(GRPC_DEFAULT if grpc is None else grpc),
        **dict.fromkeys(THREAD_VARIABLES, str(max(1, int(cpus)))),
        **(extra or {}),
    }


def python_path() -> dict[str, str]:
    """Return a PYTHONPATH by which children import what this process can: modules beside the script, added folders."""
    own = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib"))
    entries = dict.fromkeys(entry or current_folder() for entry in sys.path if not entry.startswith(own))
    return {"PYTHONPATH": os.pathsep.join(entry for entry in entries if Path(entry).exists())}


def off_the_path(folder: str) -> None:
    """Take a folder off ``sys.path`` again, where Dask put it; nothing is ever imported from it."""
    sys.path[:] = [entry for entry in sys.path if entry != folder]


def current_folder() -> str:
    """Return the current folder, also after it was removed."""
    try:
        return str(Path.cwd())
    except OSError:
        return os.sep
