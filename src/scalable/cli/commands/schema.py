"""``scalable admin schema``: the JSON Schema of manifests."""

from __future__ import annotations

import argparse

from scalable.cli.output import print_json


def run(options: argparse.Namespace) -> int:
    from scalable.manifest.models import json_schema

    print_json(json_schema())
    return 0
