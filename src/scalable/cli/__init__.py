"""The ``scalable`` command: one small module per command, imported only when it is called."""
