"""A run's report as one self-contained page, to be kept, sent and printed."""
