"""A live run: the session, its client, and the driver that connects engine, cluster and journal.

``session`` is what people use. ``driver`` gives jobs to workers and records what happens, ``sweep`` carries a sweep out,
``operate`` is what people and programs see and ask, ``money`` is what it costs.
"""
