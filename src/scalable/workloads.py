"""The names that a workload is written with: its stages, its plug-in, and what both say to people.

A workload imports from here and from ``scalable`` alone; everything else may change without notice. The how-to page
"Write a workload" shows one, and ``scalable.testing.WorkloadContract`` checks it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scalable.exports import exports

if TYPE_CHECKING:  # the names of HOMES once more, for type checkers
    # isort: off
    from scalable.axes import AxisKind as AxisKind, Value as Value, parse_over as parse_over
    from scalable.errors import (
        MissingExtraError as MissingExtraError,
        QuantityError as QuantityError,
        ScalableError as ScalableError,
        UsageError as UsageError,
    )
    from scalable.manifest.fields import (
        Amount as Amount,
        Count as Count,
        CountOrNone as CountOrNone,
        Section as Section,
        Text as Text,
        Variant as Variant,
    )
    from scalable.manifest.work import OverAxis as OverAxis, once as once
    from scalable.plugins import (
        Better as Better,
        Checked as Checked,
        Curves as Curves,
        Evidence as Evidence,
        Factor as Factor,
        General as General,
        JobCost as JobCost,
        Metric as Metric,
        ShortForm as ShortForm,
        WorkloadPlugin as WorkloadPlugin,
    )
    from scalable.quantities import Duration as Duration, percent as percent
    from scalable.sweeps.project import located as located
    from scalable.sweeps.stages import Stage as Stage, StageError as StageError, scratch as scratch, stage as stage
    from scalable.sweeps.workload import Workload as Workload
    from scalable.wording import (
        install_hint as install_hint,
        not_defined as not_defined,
        plural as plural,
        shown as shown,
        undefined as undefined,
    )
    from scalable.worker.runner.notes import note as note
    from scalable.worker.runner.stamp import long_step as long_step, progress as progress

HOMES = {
    "axes": ("AxisKind", "Value", "parse_over"),
    "errors": ("MissingExtraError", "QuantityError", "ScalableError", "UsageError"),
    "manifest.fields": ("Amount", "Count", "CountOrNone", "Section", "Text", "Variant"),
    "manifest.work": ("OverAxis", "once"),
    "plugins": (
        *("Better", "Checked", "Curves", "Evidence", "Factor", "General", "JobCost", "Metric", "ShortForm"),
        "WorkloadPlugin",
    ),
    "quantities": ("Duration", "percent"),
    "sweeps.project": ("located",),
    "sweeps.stages": ("Stage", "StageError", "scratch", "stage"),
    "sweeps.workload": ("Workload",),
    "wording": ("install_hint", "not_defined", "plural", "shown", "undefined"),
    "worker.runner.notes": ("note",),
    "worker.runner.stamp": ("long_step", "progress"),
}
__all__, __getattr__, __dir__ = exports(__name__, HOMES, within="scalable")
