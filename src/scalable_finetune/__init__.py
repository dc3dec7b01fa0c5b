"""The trading workload: market data, features, events, labels and folds, and the models that are searched on them.

A plug-in of ``scalable``: ``scalable_finetune.plugin`` declares what it brings to sweeps, and everything here is
written with the names of ``scalable.workloads`` alone.
"""

__stored_as__ = "scalable.finetune"  # the package's former name, which the keys of stored rows and artefacts have
