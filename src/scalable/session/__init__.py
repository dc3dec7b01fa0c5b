"""A live run: the session, its client, and the driver that connects engine, cluster and journal.

``session`` is what people use. ``driver`` gives jobs to workers and records what happens, ``sweep`` runs a sweep,
``operate`` is what people and programs see and ask, ``money`` is what it costs.
"""
