"""Slurm's words for why a job waits or cannot be run, in sentences; unknown ones are shown as they are."""

from __future__ import annotations

WAITS = {
    "Resources": "waits for free nodes",
    "Priority": "others come first",
    "BeginTime": "may not start yet",
    "Dependency": "waits for another job",
    "JobHeldUser": "is held by its owner; scontrol release lets it go",
    "JobHeldAdmin": "is held by an administrator",
    "Licenses": "waits for licences",
    "Reservation": "waits for its reservation",
    "ReservationDeleted": "its reservation is gone",
    "ReqNodeNotAvail": "the nodes it needs are down or reserved",
    "Nodes required for job are DOWN": "the nodes it needs are down or reserved",
    "PartitionDown": "the partition is down",
    "PartitionInactive": "the partition is closed",
    "NodeDown": "its node is down",
    "MaxCpuPerAccount": "the account's limit of CPUs is used up",
    "QOSMaxCpuPerUserLimit": "your limit of CPUs at once is used up",
    "QOSMaxJobsPerUserLimit": "your limit of jobs at once is used up",
    "QOSGrpCpuLimit": "the limit of CPUs of this quality of service is used up",
    "AssocGrpCpuLimit": "the account's limit of CPUs is used up",
    "AssocGrpCPUMinutesLimit": "the account's CPU time is used up",
    "AssocMaxJobsLimit": "the account's limit of jobs at once is used up",
}

NEVER = {
    "PartitionConfig": "it asks for more than any node of the partition has",
    "PartitionNodeLimit": "it asks for more nodes than the partition allows",
    "PartitionTimeLimit": "its walltime is longer than the partition allows",
    "BadConstraints": "no node is what it asks for",
    "InvalidAccount": "the account is not known",
    "InvalidQOS": "the quality of service is not known",
    "AccountNotAllowed": "the account may not use the partition",
    "QOSNotAllowed": "the quality of service may not be used in the partition",
    "AssocMaxCpuPerJobLimit": "it asks for more CPUs than the account may use in a job",
    "AssocMaxMemPerJob": "it asks for more memory than the account may use in a job",
    "AssocMaxWallDurationPerJobLimit": "its walltime is longer than the account may use",
    "QOSMaxCpuPerJobLimit": "it asks for more CPUs than a job may have here",
    "QOSMaxMemoryPerJob": "it asks for more memory than a job may have here",
    "QOSMaxWallDurationPerJobLimit": "its walltime is longer than a job may have here",
}
"""Reasons that waiting does not cure."""


def waits(reason: str) -> str:
    """Why a pending job waits."""
    key = reason.split(",")[0]
    if key in ("", "None"):
        return "Slurm has not looked at it yet"
    words = WAITS.get(key) or NEVER.get(key)
    return f"{words} ({reason})" if words else reason


def never(reason: str) -> str:
    """Why a pending job can never start; empty if it can."""
    key = reason.split(",")[0]
    return f"{NEVER[key]} ({key})" if key in NEVER else ""
