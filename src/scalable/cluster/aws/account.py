"""The calls to AWS: clients for one region, errors in sentences, and the secret that a worker reads.

boto3 is called directly, not through dask-cloudprovider: its process objects retry every refusal for a minute instead
of passing it on, ask about a task without pause, know no cause of a worker's end, start ``dask-worker``
instead of a worker of a kind, put the cluster's private keys into the user data of instances, open the scheduler's port
to the world, and search the whole account for clusters to delete whenever one starts.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from scalable.cluster.clouds.fleet import CloudError
from scalable.errors import MissingExtraError

ANSWER_WITHIN_S = 20
PASSING = (
    "Throttl", "RequestLimitExceeded", "TooManyRequests", "ServiceUnavailable", "InternalError", "ServerException",
    "InsufficientInstanceCapacity", "InsufficientCapacity", "InsufficientFreeAddressesInSubnet", "LimitExceeded",
    "MaxSpotInstanceCountExceeded", "VcpuLimitExceeded", "Unavailable", "RequestTimeout",
)  # fmt: skip
"""Beginnings and parts of error codes whose cause may pass: too many calls, no capacity, a quota that is used up."""
WITHIN = re.compile(r"\(ErrorCode: (\w+)\)")
"""In the message of a service, what another one answered that it asked: ECS asks EC2 about networks for every task."""
OLD = ("ExpiredToken", "ExpiredTokenException", "AuthFailure", "InvalidClientTokenId", "UnrecognizedClientException")
LOGIN = "run aws sso login or aws configure"


class Account:
    def __init__(self, region: str | None) -> None:
        try:
            boto3, config = import_module("boto3"), import_module("botocore.config")
        except ImportError as error:
            raise MissingExtraError(f"aws needs boto3 ({error}); pip install 'scalable[aws]'") from None
        with told("sign-in"):
            self.session: Any = boto3.session.Session(region_name=region)
        self.config = config.Config(
            connect_timeout=ANSWER_WITHIN_S, read_timeout=ANSWER_WITHIN_S, retries={"mode": "standard"}
        )
        self.clients: dict[str, Any] = {}
        self.making = threading.Lock()

    def client(self, service: str) -> Any:
        with self.making:  # sessions are not safe to share between threads; clients are
            if service not in self.clients:
                with told(service):
                    self.clients[service] = self.session.client(service, config=self.config)
            return self.clients[service]

    def call(self, service: str, action: str, **wishes: Any) -> dict[str, Any]:
        with told(f"{service}:{action}"):
            answer: dict[str, Any] = getattr(self.client(service), action)(**wishes)
            return answer

    def pages(self, service: str, action: str, key: str, **wishes: Any) -> list[Any]:
        with told(f"{service}:{action}"):
            pages = self.client(service).get_paginator(action).paginate(**wishes)
            return [one for page in pages for one in page.get(key, [])]


class AwsError(CloudError):
    """``code`` is AWS's own word for it."""

    def __init__(self, message: str, code: str = "", *, passing: bool = False) -> None:
        super().__init__(message, passing=passing)
        self.code = code


@contextmanager
def told(what: str) -> Iterator[None]:
    """Errors of boto3 as sentences."""
    errors = import_module("botocore.exceptions")
    try:
        yield
    except errors.NoRegionError:
        raise AwsError("no region is set; write region: … in the target") from None
    except errors.NoCredentialsError:
        text = "there are no credentials for AWS; run aws configure, or set AWS_PROFILE"
        raise AwsError(text) from None
    except (errors.PartialCredentialsError, errors.SSOError, errors.TokenRetrievalError) as error:
        raise AwsError(f"the credentials for AWS cannot be used: {error}; {LOGIN}") from None
    except errors.ProfileNotFound as error:
        raise AwsError(f"{error}; set AWS_PROFILE to one that aws configure list-profiles names, or unset it") from None
    except errors.ClientError as error:
        code, message = (error.response["Error"].get(name, "") for name in ("Code", "Message"))
        denied = "AccessDenied" in code or code == "UnauthorizedOperation"
        hint = f"; your credentials need the right to {what}" if denied else f"; {LOGIN}" if code in OLD else ""
        failing = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0) >= 500
        passing = failing or any(map(may_pass, (code, *WITHIN.findall(message))))
        raise AwsError(f"AWS refused {what}: {message} ({code}){hint}", code, passing=passing) from None
    except errors.BotoCoreError as error:
        raise AwsError(f"AWS does not answer {what}: {error}", passing=True) from None


def may_pass(code: str) -> bool:
    return any(word in code for word in PASSING)


def tag_list(tags: dict[str, str], key: str = "Key", value: str = "Value") -> list[dict[str, str]]:
    return [{key: name, value: text} for name, text in tags.items()]


def read_secret(arn: str) -> str:
    """Called on a worker's machine, with what the machine itself may do."""
    from scalable.cluster.clouds.handout import HandoutError

    region = arn.split(":")[3]
    try:
        text: str = Account(region).call("secretsmanager", "get_secret_value", SecretId=arn)["SecretString"]
    except CloudError as error:
        raise HandoutError(f"{error}; may the instance profile read secrets named scalable-…?") from None
    return text
