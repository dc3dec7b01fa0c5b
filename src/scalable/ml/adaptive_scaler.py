"""The documented import path of the adaptive scaler; it lives in ``scalable.engine.scaling``."""

from scalable.engine.scaling import AdaptiveScaler, ScaleDecision

__all__ = ["AdaptiveScaler", "ScaleDecision"]
