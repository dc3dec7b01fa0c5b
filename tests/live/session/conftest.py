"""The fixtures of sessions."""

from tests.helpers.session.fixtures import project

__all__ = ["project"]
