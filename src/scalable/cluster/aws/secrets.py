"""What a run hands to its workers, in Secrets Manager: one secret for each kind of worker, gone with the run."""

from __future__ import annotations

from collections.abc import Iterable

from scalable.cluster.aws.account import Account, AwsError, tag_list
from scalable.cluster.clouds.fleet import plain


def prefix(run: str) -> str:
    return f"scalable-{run}-"


def name_of(run: str, tag: str) -> str:
    return prefix(run) + plain(tag)


def keep(account: Account, run: str, tag: str, text: str, tags: dict[str, str]) -> str:
    """Its ARN; a kind that is defined anew gets a new value."""
    name = name_of(run, tag)
    try:
        made = account.call(
            "secretsmanager", "create_secret", Name=name, SecretString=text, Tags=tag_list(tags),
            Description="certificates of one run of scalable",
        )  # fmt: skip
    except AwsError as error:
        if error.code != "ResourceExistsException":
            raise
        made = account.call("secretsmanager", "put_secret_value", SecretId=name, SecretString=text)
    arn: str = made["ARN"]
    return arn


def remove(account: Account, run: str, tags: Iterable[str]) -> list[str]:
    """Those that AWS lists and those of these kinds: a list may lack what was made minutes ago."""
    left = []
    mine = [{"Key": "name", "Values": [prefix(run)]}]
    listed = account.pages("secretsmanager", "list_secrets", "SecretList", Filters=mine)
    for name in sorted({one["Name"] for one in listed} | {name_of(run, tag) for tag in tags}):
        try:
            account.call("secretsmanager", "delete_secret", SecretId=name, ForceDeleteWithoutRecovery=True)
        except AwsError as error:
            if error.code != "ResourceNotFoundException":
                left.append(f"secret {name}")
    return left
