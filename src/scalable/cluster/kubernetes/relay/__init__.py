"""The relay between a driver outside a cluster and workers inside it: one pod, and one connection to it.

``python -m scalable.cluster.kubernetes.relay`` runs in the cluster. Workers connect to it as if it were the scheduler.
The driver reaches it by a port-forward and carries all connections, in both directions, over that one (``comm``).
"""

from __future__ import annotations

import secrets

WORKER_PORT = 8786
"""Where workers connect; the port that Dask's own schedulers have."""
CONTROL_PORT = 8787
"""Where the driver connects, on the pod's loopback: only a port-forward leads there."""
TOKEN_FILE = "relay-token"
"""The file of the handout with the secret by which the relay knows its driver."""


def new_token() -> bytes:
    """Return a secret for one run, as text, so that it can be in any file."""
    return secrets.token_hex(32).encode()


def arguments(handout: str) -> list[str]:
    """Return what follows ``python -m scalable.cluster.kubernetes.relay`` in a pod with the handout in a folder."""
    return [
        f"--listen=:{WORKER_PORT}",
        f"--control=127.0.0.1:{CONTROL_PORT}",
        f"--token={handout.rstrip('/')}/{TOKEN_FILE}",
    ]
