"""What a run hands to its workers, in Secrets Manager: one secret for each kind of worker, gone with the run."""

from __future__ import annotations

from scalable.providers.aws.account import Account, AwsError, tag_list
from scalable.providers.clouds.fleet import plain


def prefix(run: str) -> str:
    return f"scalable-{run}-"


def keep(account: Account, run: str, tag: str, text: str, tags: dict[str, str]) -> str:
    """Its ARN; a kind that is defined anew gets a new value."""
    name = prefix(run) + plain(tag)
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


def remove(account: Account, run: str) -> list[str]:
    left = []
    mine = [{"Key": "name", "Values": [prefix(run)]}]
    for one in account.pages("secretsmanager", "list_secrets", "SecretList", Filters=mine):
        try:
            account.call("secretsmanager", "delete_secret", SecretId=one["ARN"], ForceDeleteWithoutRecovery=True)
        except AwsError as error:
            if error.code != "ResourceNotFoundException":
                left.append(f"secret {one['Name']}")
    return left
