"""``python -m scalable.worker.runner``: see ``scalable.worker.runner.child``."""

import atexit
import os
import sys
from contextlib import suppress

from scalable.worker.runner.child import main

status = main()
atexit._run_exitfuncs()
for stream in (sys.stdout, sys.stderr):
    with suppress(OSError, ValueError, AttributeError):  # the user's code may have closed it
        stream.flush()
os._exit(status)  # an interpreter with large libraries takes a second to take them apart, and somebody waits for it
