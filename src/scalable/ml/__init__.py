"""The documented import path of the adaptive scaler; it lives in ``scalable.engine``."""
