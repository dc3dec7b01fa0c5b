"""The words of commands that set things up around runs."""

from __future__ import annotations

import argparse

from scalable.cli.arguments.shared import Add, manifest_options

SHELLS = ("bash", "zsh", "fish", "tcsh")
NAMES = ("sweeps", "targets")


def upkeep_commands(add: Add) -> None:
    deploy = add(
        "deploy",
        "write the files with which a cluster or Airflow runs a sweep by itself, or Prometheus watches; starts nothing",
        "deploy kubernetes --sweep calibration --output deploy",
        "deploy kubernetes --target cluster --helm --output chart",
        "deploy airflow --sweep calibration --output dags",
        "deploy prometheus --output watch",
    )
    deploy_options(deploy)

    completion = add(
        "completion",
        "print a shell completion script",
        "completion bash > ~/.local/share/bash-completion/completions/scalable",
        "completion zsh > ~/.zfunc/_scalable      with fpath=(~/.zfunc $fpath) before compinit in ~/.zshrc",
        "completion fish > ~/.config/fish/completions/scalable.fish",
        "completion sweeps      names in the manifest; what such a script asks for",
    )
    completion.add_argument("shell", choices=SHELLS + NAMES, metavar="SHELL", help=", ".join(SHELLS))


def deploy_options(command: argparse.ArgumentParser) -> None:
    systems = ("kubernetes", "airflow", "prometheus")
    command.add_argument("what", choices=systems, metavar="SYSTEM", help=", ".join(systems))
    manifest_options(command)
    command.add_argument("--sweep", metavar="S", help="which to run (default: the manifest's only one, or its tasks)")
    command.add_argument("--output", metavar="DIR", default="deploy", help="a folder to write to (default: deploy)")
    command.add_argument("--force", action="store_true", help="replace files of the same names in it")
    command.add_argument("--helm", action="store_true", help="kubernetes: a Helm chart instead of plain files")
    where = "kubernetes: ADDRESS:PORT of the API server, so that the driver may connect to nothing else there"
    command.add_argument("--api-server", metavar="A", help=where)
    scraped = "kubernetes: the namespace of your Prometheus, which may then ask the driver for its figures"
    command.add_argument("--prometheus", metavar="NS", help=scraped)
    runs = "prometheus: the folder of the runs to watch (default: SCALABLE_RUNS_DIR, then .scalable/runs)"
    command.add_argument("--runs", metavar="R", help=runs)
    alertmanager = "prometheus: HOST:PORT of the Alertmanager that is told (default: 127.0.0.1:9093)"
    command.add_argument("--alertmanager", metavar="A", help=alertmanager)
    pods = "prometheus: also watch drivers that are pods of this namespace"
    command.add_argument("--namespace", metavar="NS", help=pods)
