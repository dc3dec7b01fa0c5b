"""A sweep of a session: its slot among others, what the store lacks, and the rows that are computed."""
