"""Verdicts on the variants of a sweep: numbers in, a reasoned verdict out.

Nothing here knows manifests, stores, sessions, clocks or files. ``judging.judge`` is the way in; ``methods`` has the
tests, ``rule`` what follows from them, ``power`` and ``futility`` what can be known before the last block. Importing
this package loads neither numpy nor scipy; its modules load numpy, and scipy.special at the first test.
"""
