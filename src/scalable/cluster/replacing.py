"""Another worker for one that was lost or had notice, as long as anybody would gain from it."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import TYPE_CHECKING

from distributed.core import Status

from scalable.cluster.base import Fate, LaunchRefused
from scalable.cluster.giving_up import give_up
from scalable.engine.events import Loss
from scalable.engine.fleet import LATE_AFTER_S, START_DELAY_S, YOUNG_S
from scalable.wording import plural

if TYPE_CHECKING:
    from scalable.cluster.cluster import TaggedCluster
    from scalable.cluster.members import Member

logger = logging.getLogger("scalable")

MOST_FAILED_STARTS = 3  # in a row, of workers that are replaced; then nobody would gain from a fourth


class Replacements:
    """Of one cluster. ``wanted`` is off where an engine decides how many workers there are."""

    def __init__(self, cluster: TaggedCluster, wanted: bool) -> None:
        self.cluster = cluster
        self.wanted = wanted
        self.failed_starts: Counter[str] = Counter()
        """How many workers of a tag in a row did not join."""
        self.short_lives: Counter[str] = Counter()
        """How many workers of a tag in a row joined and died without having worked."""
        self.given_up: dict[str, str] = {}
        """Tags for which no more workers are tried, with the reason."""

    def joined(self, member: Member) -> None:
        self.failed_starts[member.tag] = 0
        self.given_up.pop(member.tag, None)

    def lost(self, member: Member, fate: Fate) -> None:
        """It is gone, and nobody had told it to go."""
        if member.joined:
            young = not member.worked and member.age_s < YOUNG_S
            self.short_lives[member.tag] = self.short_lives[member.tag] + 1 if young else 0
            self.failed_starts[member.tag] = 0
        else:
            self.failed_starts[member.tag] += 1
        if self.possible and not member.noticed:
            self.cluster.keep(self.start_another(member, fate))

    def had_notice(self, member: Member) -> None:
        """Another one comes now, so that it can take over what this one holds."""
        if self.possible and not (member.leaving or member.noticed):
            member.noticed = True
            self.cluster.keep(self.start_another(member, Fate(Loss.PREEMPTED, "had notice")))

    @property
    def possible(self) -> bool:
        return self.wanted and self.cluster.status is Status.running

    async def start_another(self, member: Member, fate: Fate) -> None:
        if self.failed_starts[member.tag] >= MOST_FAILED_STARTS:
            tried = plural(MOST_FAILED_STARTS, member.tag + " worker")
            logger.error("%s in a row did not start; no more are tried", tried)
            self.give_up(member.tag, fate.detail or fate.cause.value)
            return
        if (lives := self.short_lives[member.tag]) > 1:
            await asyncio.sleep(min(START_DELAY_S * 2 ** min(lives - 2, 10), LATE_AFTER_S))
        try:
            await self.cluster.launch(1, member.template)
        except LaunchRefused as refusal:
            if member.name in self.cluster.members:  # it is tried again when this one is gone
                member.noticed = False
                return
            logger.error("a worker for the lost %s was refused: %s", member.name, refusal)
            self.give_up(member.tag, str(refusal))

    def give_up(self, tag: str, reason: str) -> None:
        self.given_up[tag] = reason
        give_up(self.cluster, tag, reason)
