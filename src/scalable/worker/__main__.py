"""``python -m scalable.worker``: see ``scalable.worker.main``."""

from __future__ import annotations

import os
import signal
import sys

# the first process of a container gets no signal that it has not asked for; until the worker does, to go is simple
signal.signal(signal.SIGTERM, lambda *_: os._exit(128 + signal.SIGTERM))

from scalable.worker import printing  # noqa: E402

printing.redirect()

from scalable.worker.main import main  # noqa: E402 - takes seconds

sys.exit(main())
