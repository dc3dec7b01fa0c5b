"""A live run: the session, its client, and the driver that connects engine, cluster and journal."""
