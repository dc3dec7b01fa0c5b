"""The fixtures of stores."""

from tests.helpers.store.fixtures import children, postgres, server_url, url

__all__ = ["children", "postgres", "server_url", "url"]
