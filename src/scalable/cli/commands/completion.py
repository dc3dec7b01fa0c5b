"""``scalable completion``: a completion script for the shell."""

from __future__ import annotations

import argparse

import shtab

from scalable.cli.parser import parser


def run(options: argparse.Namespace) -> int:
    print(shtab.complete(parser(), shell=options.shell))
    return 0
