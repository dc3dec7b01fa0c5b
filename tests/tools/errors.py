"""What may go wrong with a test tool, split by what a test does about it: skip, or fail."""

from __future__ import annotations

from scalable.errors import ScalableError


class ToolError(ScalableError):
    """A tool that is there did not do what it should; a test that meets it fails."""


class ToolMissingError(ToolError):
    """A tool cannot be had on this machine; the message names the command that brings it, and the test is skipped."""
