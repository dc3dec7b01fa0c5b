"""Workers as plain pods of a Kubernetes cluster, one pod per worker."""
