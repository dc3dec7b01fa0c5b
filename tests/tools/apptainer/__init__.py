"""A real Apptainer and an image for it, both made from what the machine's own package sources and files offer."""

from __future__ import annotations

from tests.tools.apptainer.image import build_image, environment_folders
from tests.tools.apptainer.program import cache_folder, get

__all__ = ["build_image", "cache_folder", "environment_folders", "get"]
