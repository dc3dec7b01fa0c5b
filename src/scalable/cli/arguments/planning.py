"""The words of commands that describe and plan work; nothing is started by them."""

from __future__ import annotations

from scalable.cli.arguments.shared import Add, choice_options, manifest_options, seed_option

REPLAY = "replay"  # asks about a run, not about the manifest
VIEWS = ("margins", "timeline", "options", "month", "growth", "acceptance")


def planning_commands(add: Add) -> None:
    init = add(
        "init",
        "write a commented manifest to start from",
        "init",
        "init --template ftf",
        "init --template hpc lab.yaml",
    )
    init.add_argument("path", nargs="?", default="scalable.yaml", help="where to write it (default: scalable.yaml)")
    init.add_argument("--template", choices=("minimal", "ftf", "hpc"), default="minimal", help="what to start from")
    init.add_argument("--force", action="store_true", help="overwrite an existing file")

    validate = add(
        "validate", "check a manifest and show every error at once", "validate", "validate lab.yaml --target hpc"
    )
    manifest_options(validate)

    doctor = add(
        "doctor",
        "check what a run will need; starts nothing",
        "doctor",
        "doctor lab.yaml --target hpc",
        "doctor --worker demeter-0      what protects runs on a live worker",
        "doctor --format json",
    )
    manifest_options(doctor)
    doctor.add_argument("--worker", metavar="W", help="instead: what protects runs on this worker of a live session")
    doctor.add_argument("--run-id", metavar="ID", help="whose worker is meant (default: the session that runs)")

    add("schema", "print the JSON Schema of manifests, for editors", "schema > scalable.schema.json")

    plan = add(
        "plan",
        "show what sweeps will need, take and cost; starts nothing",
        "plan --sweep calibration",
        'plan --sweep calibration --objective "minimize time" --policy aggressive',
        "plan --format json",
    )
    manifest_options(plan)
    plan.add_argument("--sweep", metavar="NAME", help="one sweep (default: all, run as admission allows)")
    choice_options(plan)
    seed_option(plan)

    forecast = add(
        "forecast",
        "answer a question about the manifest as a whole, or replay a run",
        "forecast margins      what is left when everything runs at once",
        "forecast timeline     when nodes come and go",
        "forecast options      ways to run the same sweep, compared",
        "forecast month        what a month costs",
        "forecast growth       what more would need",
        "forecast acceptance   the criteria of the sizing, pass or fail",
        "forecast replay RUN   whether a recorded run would be decided the same again",
    )
    views = (*VIEWS, REPLAY)
    forecast.add_argument("view", choices=views, metavar="VIEW", help=", ".join(views))
    manifest_options(forecast, "; after replay the id or folder of a run (default: the latest)")
    forecast.add_argument("--sweep", metavar="NAME", help="for the timeline (default: the first sweep)")
    seed_option(forecast)
