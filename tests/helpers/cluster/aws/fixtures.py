"""One moto server for a test session's worker, and credentials that are good nowhere else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest

from scalable.cluster.aws.account import Account, AwsError
from tests.helpers.cluster.aws.amazon import REGION, Hands
from tests.helpers.cluster.clouds import ask_often


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(scope="class")
def hands(server: str) -> Iterator[Hands]:
    from moto.moto_api import state_manager

    # tasks stay as they are until the process behind them ends, not for a number of questions
    state_manager.set_transition("ecs::task", {"progression": "manual", "times": 10**9})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", server)
        patch.setenv("AWS_ACCESS_KEY_ID", "testing")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
        patch.setenv("AWS_DEFAULT_REGION", REGION)
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        patch.delenv("AWS_PROFILE", raising=False)
        ask_often(patch)
        with suppress(AwsError):  # another class has made it
            Account(REGION).call("iam", "create_instance_profile", InstanceProfileName="worker")
        found = Hands(server)
        try:
            yield found
        finally:
            found.close()
