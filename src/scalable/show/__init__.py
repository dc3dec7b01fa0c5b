"""What people look at: the live console and the report of a run."""
