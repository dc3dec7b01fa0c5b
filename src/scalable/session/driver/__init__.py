"""The driver: connects the engine to a live cluster, gives work to workers, and records what happens."""
