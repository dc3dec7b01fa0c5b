"""The fixtures of sessions."""

from tests.helpers.session.fixtures import project
from tests.helpers.session.virtual import world

__all__ = ["project", "world"]
