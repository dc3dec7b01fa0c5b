"""Whatever rows come, in any order and groups, with crashes and locks in between: the content is the same."""

from __future__ import annotations

from scalable.store import RowStatus

ENDS = [(RowStatus.FINISHED, False), (RowStatus.FAILED, False), (RowStatus.FAILED, True)]  # and whether marked
