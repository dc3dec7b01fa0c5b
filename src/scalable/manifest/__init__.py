"""``scalable.yaml``: its typed models, reading it, and findings that name file, line and the corrected text."""

from scalable.manifest.findings import Issue, ManifestError, Place, ValidationReport
from scalable.manifest.load import Loaded, load_file, load_text
from scalable.manifest.models import Manifest

__all__ = ["Issue", "Loaded", "Manifest", "ManifestError", "Place", "ValidationReport", "load_file", "load_text"]
