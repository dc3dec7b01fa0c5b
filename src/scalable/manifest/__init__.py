"""``scalable.yaml``: its typed models, reading it, and findings that name file, line and the corrected text."""

from scalable.manifest.load import Loaded, load_file, load_text
from scalable.manifest.models import Manifest
from scalable.manifest.validation import Issue, ManifestError, ValidationReport

__all__ = ["Issue", "Loaded", "Manifest", "ManifestError", "ValidationReport", "load_file", "load_text"]
