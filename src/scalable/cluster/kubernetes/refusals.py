"""Why the API did not take an object, in sentences with a remedy; and whether asking again could help."""

from __future__ import annotations

import re

from scalable.cluster.base import LaunchRefused
from scalable.cluster.kubernetes.facts import brief, joined, listed, text
from scalable.cluster.kubernetes.quantities import more


def refusal(status_code: int, body: object) -> LaunchRefused:
    """Why the API did not take a pod; definite if it would not take it later either."""
    said = text(body, "message") or (body if isinstance(body, str) else "")
    if quota := re.search(r"exceeded quota: (.*?), requested: (.*?), used: (.*?), limited: (.*)", said, re.DOTALL):
        return quota_refusal(*quota.groups())
    if rights := re.search(
        r'[Uu]ser "(.*?)" cannot (\S+) resource "(.*?)".*?(?:in the namespace "(.*?)"|at the cluster scope|$)', said
    ):
        user, verb, resource, namespace = rights.groups()
        where = f" in the namespace {namespace}" if namespace else ""
        remedy = f"have a Role with the verb {verb} for {resource} bound to it"
        return LaunchRefused(f"{user} may not {verb} {resource}{where}; {remedy}", definite=True)
    if account := re.search(r'error looking up service account \S+: serviceaccount "(.*?)" not found', said):
        remedy = "create it, or name another: worker_service_account"
        return LaunchRefused(f"the service account {account[1]} does not exist; {remedy}", definite=True)
    if missing := re.search(r'namespaces "(.*?)" not found', said):
        name = missing[1]
        return LaunchRefused(f"the namespace {name} does not exist; kubectl create namespace {name}", definite=True)
    if status_code == 401:
        return LaunchRefused(
            joined(": ", "the cluster does not accept the credentials; log in again", brief(said)), definite=True
        )
    if status_code in (409, 429) or status_code >= 500:
        words = "there is one already" if status_code == 409 else "the cluster's API is busy or fails"
        return LaunchRefused(joined(": ", f"{words} ({status_code})", brief(said)))
    causes = [joined(": ", text(one, "field"), text(one, "message")) for one in listed(body, "details", "causes")]
    told = brief("; ".join(filter(None, causes)) or said) if status_code == 422 else brief(said)
    return LaunchRefused(joined(": ", f"the cluster refuses it ({status_code})", told), definite=True)


def quota_refusal(name: str, requested: str, used: str, limited: str) -> LaunchRefused:
    """A quota that is used up may be freed; one that is smaller than a single pod will not do."""
    asked, there = pairs(requested), pairs(limited)
    never = [what for what, amount in asked.items() if what in there and more(amount, there[what])]
    had = pairs(used)
    facts = [
        f"{what} {amount} with {had.get(what, '?')} of {there.get(what, '?')} used" for what, amount in asked.items()
    ]
    if never:
        small = f"the quota {name} is smaller than one worker: {', '.join(facts)}; raise it, or use a smaller profile"
        return LaunchRefused(brief(small), definite=True)
    return LaunchRefused(brief(f"the quota {name} is used up: it asks for {', '.join(facts)}"))


def pairs(written: str) -> dict[str, str]:
    found = (one.strip().partition("=") for one in written.split(","))
    return {what: amount for what, sign, amount in found if sign}
