"""The words of commands about what a sweep gave, and what follows from it."""

from __future__ import annotations

import argparse

from scalable.cli.arguments.shared import Add, format_option


def sweep_commands(add: Add) -> None:
    def of_a_store(command: argparse.ArgumentParser) -> None:
        command.add_argument("--manifest", metavar="M", help="default: SCALABLE_MANIFEST, then ./scalable.yaml")
        command.add_argument("--target", metavar="T", help="default: SCALABLE_TARGET, then the manifest's first")
        command.add_argument("--overlay", metavar="O", help="an overlay to apply on top of the target's")
        format_option(command)

    results = add(
        "results", "show what a sweep has given so far", "results calibration", "results calibration --all",
        "results calibration --check", "results calibration --format json",
    )  # fmt: skip
    results.add_argument("sweep", nargs="?", metavar="SWEEP", help="default: the manifest's only one")
    results.add_argument("--all", action="store_true", help="every row instead of means by variant")
    results.add_argument("--check", action="store_true", help="exit status 1 if a row is missing or failed")
    of_a_store(results)

    slots = add(
        "slots", "show which sweeps run or wait among all that share the store, or take a slot for several runs",
        "slots", "slots take calibration --holder nightly-1     then: run --sweep calibration --holder nightly-1",
        "slots leave calibration --holder nightly-1",
    )  # fmt: skip
    actions = ("list", "take", "leave")
    slots.add_argument("action", nargs="?", default="list", choices=actions, metavar="ACTION", help="|".join(actions))
    slots.add_argument("sweep", nargs="?", metavar="SWEEP", help="take, leave: of this sweep")
    slots.add_argument("--holder", metavar="ID", help="take, leave: a name that its runs share and no others have")
    of_a_store(slots)

    decide = add(
        "decide", "judge the variants of a sweep: LOCK, KEEP_AVAILABLE or ABANDON", "decide calibration",
        "decide calibration --format json",
    )  # fmt: skip
    decide.add_argument("sweep", nargs="?", metavar="SWEEP", help="default: the manifest's only one")
    of_a_store(decide)

    lock = add(
        "lock", "make a variant part of the base on which further sweeps run", "lock calibration isotonic",
        'lock n_features 50 --force --reason "half the memory for the same result"', "lock --undo", "lock --list",
    )  # fmt: skip
    lock.add_argument("factor", nargs="?", metavar="FACTOR", help="what the sweep varied")
    lock.add_argument("variant", nargs="?", metavar="VARIANT", help="one with the verdict LOCK, or the baseline")
    lock.add_argument("--sweep", metavar="S", help="whose decision counts (default: the one that varies the factor)")
    lock.add_argument("--force", action="store_true", help="whatever the verdict is; needs a reason")
    lock.add_argument("--reason", metavar="TEXT", help="kept with the lock, for those who ask")
    lock.add_argument("--undo", action="store_true", help="go back to what was before the last lock in force")
    lock.add_argument("--list", action="store_true", help="every lock there was, with its reason")
    of_a_store(lock)

    cache = add(
        "cache",
        "list or remove the kept results of stages (not those of @cacheable)",
        "cache ls",
        "cache gc --older-than 7d --dry-run",
        "cache gc --max-size 10GB       the longest unused go first",
        "cache gc --unreachable         what no sweep of the manifest would use now",
    )
    cache.add_argument("action", choices=("ls", "gc"), metavar="ls|gc", help="list, or remove what is not in use")
    cache.add_argument("--older-than", metavar="T", help="gc: what was not used for so long")
    cache.add_argument("--max-size", metavar="SIZE", help="gc: the longest unused, until no more than this is left")
    cache.add_argument("--unreachable", action="store_true", help="gc: what no declared sweep would use now")
    cache.add_argument("--dry-run", action="store_true", help="gc: say what would go, remove nothing")
    cache.add_argument("--artefacts", metavar="URL", help="another folder or URL than the manifest's")
    cache.add_argument("--manifest", metavar="M", help="default: SCALABLE_MANIFEST, then ./scalable.yaml")
    format_option(cache)
