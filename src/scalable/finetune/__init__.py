"""The trading workload: market data, features, events, labels and folds, and the models that are searched on them."""
