"""Features: what is known of an asset at the end of each bar, in 272 columns, and what Bitcoin adds to it."""

from scalable_finetune.features.columns import BASIC, NAMES, WINDOWS, Features, features
from scalable_finetune.features.overlay import OVERLAY_NAMES, overlay

__all__ = ["BASIC", "NAMES", "OVERLAY_NAMES", "WINDOWS", "Features", "features", "overlay"]
