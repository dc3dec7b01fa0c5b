"""Files that others run: what a cluster or a workflow system needs to compute a manifest's sweeps without a laptop."""
