"""Google Cloud as a server of this machine, and a service account that it alone believes."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.helpers.cluster.clouds import ask_often
from tests.helpers.cluster.gcp.google import PROJECT, Google


@pytest.fixture(scope="class")
def google(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Google]:
    cloud = Google()
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    account = {
        "type": "service_account",
        "project_id": PROJECT,
        "private_key_id": "1",
        "private_key": key.decode(),
        "client_email": "driver@lab.example",
        "client_id": "1",
        "token_uri": f"{cloud.url}/token",
        "universe_domain": "lab.example",  # such accounts sign themselves in and ask Google for nothing
    }
    file = tmp_path_factory.mktemp("google") / "account.json"
    file.write_text(json.dumps(account))
    cloud.env = {
        "GOOGLE_APPLICATION_CREDENTIALS": str(file),
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE": f"{cloud.url}/compute/v1/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_SECRETMANAGER": f"{cloud.url}/",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in cloud.env.items():
            patch.setenv(name, value)
        ask_often(patch)
        try:
            yield cloud
        finally:
            cloud.close()
