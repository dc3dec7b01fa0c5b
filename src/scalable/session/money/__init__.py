"""The cost of a session: who is paid since when, at which price, and what the month has left."""
