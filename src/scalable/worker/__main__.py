"""``python -m scalable.worker``: see ``scalable.worker.main``."""

from __future__ import annotations

import sys

from scalable.worker.main import main

sys.exit(main())
