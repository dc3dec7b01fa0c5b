"""Broken manifests: each finding has its place, what is wrong and what to write instead, and all come at once."""

# ruff: noqa: E501 - the table of cases is read line by line
from __future__ import annotations

import traceback
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalable.errors import ScalableError
from scalable.manifest import ManifestError, load_file, load_text
from tests.helpers.manifest.refusals import HEAD, NODE, only, refused


@dataclass(frozen=True)
class Case:
    """A text after ``HEAD`` (so that it starts on line 3) and the only finding it must give."""

    name: str
    text: str
    code: str
    line: int
    column: int
    says: str
    remedy: str
    head: str = HEAD


def bomb() -> str:
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10)]
    return "\n".join(levels)


SMALL = "{cpu: 1, memory: 1GiB}"

CASES = [
    Case("unknown key on top", "polices: {}", "unknown-key", 3, 1, "unknown key 'polices'", "write policies"),
    Case("unknown key inside", "components: {c: {cpu: 2}}", "unknown-key", 3, 18, "unknown key 'cpu'", "write cpus"),
    Case("unknown key without a near one", "store: x\nzzz: 1", "unknown-key", 4, 1, "unknown key 'zzz'", "known here: version"),
    Case("unknown key deep down", "policies:\n  margins: {rma: 40%}", "unknown-key", 4, 13, "policies.margins.rma", "write ram"),
    Case("text for a mapping", "targets: local", "wrong-type", 3, 10, "'local' is not a mapping", "write keys"),
    Case("list for a mapping", "nodes: [a]", "wrong-type", 3, 8, "a list is not a mapping", "write keys"),
    Case("text for a list", "sweeps: {s: {factor: timeframe, assets: defi_top5, costs_bps: 5}}", "wrong-type", 3, 63, "5 is not a list", "write e.g. ["),
    Case("number for a text", "store: 5", "bad-value", 3, 8, "store must be a non-empty text, not 5", "quote it"),
    Case("text for a flag", "targets: {t: {provider: local, processes: maybe}}", "bad-value", 3, 43, "true or false, not 'maybe'", "write true or false"),
    Case("fraction for a count", "components: {c: {cpus: 1.5}}", "bad-value", 3, 24, "cpus must be a positive integer, not 1.5", "write e.g. cpus: 4"),
    Case("boolean for a count", "components: {c: {cpus: true}}", "bad-value", 3, 24, "cpus must be a positive integer, not true", "cpus: 4"),
    Case("one of a few words", "policies: {fork: maybe}", "bad-value", 3, 18, "'maybe' is not one of 'deny', 'warn' or 'allow'", "write 'deny'"),
    Case("neither a fork policy nor keys", "policies: {fork: 5}", "bad-value", 3, 18, "5 is no fork policy", "write 'deny', 'warn' or 'allow', or keys, e.g. {policy: deny"),
    Case("no fork policy at all", "policies: {fork: }", "bad-value", 3, 18, "nothing is no fork policy", "write 'deny'"),
    Case("a fork policy that is none", "policies: {fork: {policy: maybe}}", "bad-value", 3, 27, "'maybe' is not one of 'deny', 'warn' or 'allow'", "write 'deny'"),
    Case("an unknown key of the fork policy", "policies: {fork: {polcy: deny}}", "unknown-key", 3, 19, "unknown key 'polcy'", "write policy"),
    Case("what is no module", "policies: {fork: {allow: [torch, 'a b']}}", "bad-value", 3, 34, "'a b' is not the name of a module", "write e.g. torch.utils.data"),
    Case("a word for gRPC's keys", "policies: {fork: {grpc: on}}", "wrong-type", 3, 25, "'on' is not a mapping", "write keys, e.g. {support"),
    Case("gRPC's support that is no flag", "policies: {fork: {grpc: {support: 1}}}", "bad-value", 3, 35, "support must be true or false, not 1", "write true or false"),
    Case("max_workers 0", "targets: {t: {provider: local, max_workers: 0}}", "bad-value", 3, 45, "max_workers must be a positive integer, not 0", "max_workers: 4"),
    Case("two names for one partition", "targets: {t: {provider: slurm, queue: a, partition: b}}", "bad-value", 3, 53, "queue is 'a' and partition is 'b'; both name the partition", "write one of them"),
    Case("a partition that is no text", "targets: {t: {provider: slurm, partition: 5}}", "bad-value", 3, 43, "partition must be a non-empty text, not 5", "quote it"),
    Case("nodes without workers for them", "targets: {t: {provider: slurm, nodes_per_job: 2}}", "bad-value", 3, 47, "a job holds one worker, which uses one node", "write workers_per_job: 4 as well, or exclusive: true"),
    Case("more nodes than workers", "targets: {t: {provider: slurm, nodes_per_job: 4, workers_per_job: 2}}", "bad-value", 3, 67, "2 workers cannot use 4 nodes", "write at least 4"),
    Case("no workers in a job", "targets: {t: {provider: slurm, workers_per_job: 0}}", "bad-value", 3, 49, "workers_per_job must be a positive integer, not 0", "workers_per_job: 4"),
    Case("exclusive that is no flag", "targets: {t: {provider: slurm, exclusive: 2}}", "bad-value", 3, 43, "exclusive must be true or false, not 2", "write true or false"),
    Case("no backlog at all", "targets: {t: {provider: slurm, backlog: 0}}", "bad-value", 3, 41, "backlog must be a positive integer, not 0", "backlog: 4"),
    Case("a job array", "targets: {t: {provider: slurm, sbatch: ['--nice=5', '--array=1-3']}}", "bad-value", 3, 53, "--array is not yours to add", "write max_workers"),
    Case("nodes among sbatch's options", "targets: {t: {provider: slurm, sbatch: [--nodes=2]}}", "bad-value", 3, 41, "--nodes is not yours to add", "write nodes_per_job, with workers_per_job or exclusive"),
    Case("nodes in sbatch's short form", "targets: {t: {provider: slurm, sbatch: [-N2]}}", "bad-value", 3, 41, "-N is not yours to add", "write nodes_per_job"),
    Case("tasks among sbatch's options", "targets: {t: {provider: slurm, sbatch: ['--ntasks 4']}}", "bad-value", 3, 41, "--ntasks is not yours to add", "write workers_per_job"),
    Case("memory among sbatch's options", "targets: {t: {provider: slurm, sbatch: [--mem-per-cpu=1G]}}", "bad-value", 3, 41, "--mem-per-cpu is not yours to add", "write memory in the component"),
    Case("no option of sbatch", "targets: {t: {provider: slurm, sbatch: [qos=high]}}", "bad-value", 3, 41, "'qos=high' is no option of sbatch", "write e.g. --nice=10"),
    Case("a component's walltime that is none", "components: {c: {walltime: 4h}}", "bad-value", 3, 28, "'4h' is not a walltime", "write HH:MM:SS"),
    Case("a type of no GPUs", "components: {c: {gpu_type: a100}}", "bad-value", 3, 28, "gpu_type says of which type the GPUs are", "write gpus: 1"),
    Case("max_workers negative", "targets: {t: {provider: local, max_workers: -3}}", "bad-value", 3, 45, "max_workers must be a positive integer", "max_workers: 4"),
    Case("max_workers text", "targets: {t: {provider: local, max_workers: four}}", "bad-value", 3, 45, "max_workers must be a positive integer, not 'four'", "max_workers: 4"),
    Case("max_workers empty", "targets: {t: {provider: local, max_workers: }}", "bad-value", 3, 45, "max_workers must be a positive integer, not nothing", "max_workers: 4"),
    Case("negative CPUs", "nodes: {n: {cpu: -1, memory: 1GiB}}", "bad-value", 3, 18, "-1 is not a number of CPUs: it is negative", "write e.g. 2, 7.8"),
    Case("a node of nothing", "nodes: {n: {cpu: 0, memory: 1GiB}}", "bad-value", 3, 12, "above 0", "write e.g. {cpu: 16"),
    Case("a limit of nothing", "profiles: {p: {request: {cpu: 0, memory: 1GiB}, limit: {cpu: 0, memory: 1GiB}}}", "bad-value", 3, 56, "a limit of 0 runs nothing", "limit: {cpu: 4"),
    Case("a request of nothing", f"profiles: {{p: {{request: {{cpu: 0, memory: 0B}}, limit: {SMALL}}}}}", "bad-value", 3, 25, "a request of 0", "request: {cpu: 2"),
    Case("a component of nothing", "components: {c: {memory: 0GiB}}", "bad-value", 3, 26, "memory above 0", "memory: 8GiB"),
    Case("negative memory", "components: {c: {memory: -8GiB}}", "bad-value", 3, 26, "'-8GiB' is not an amount of memory", "write e.g. 8GiB"),
    Case("memory without unit", "components: {c: {memory: 8}}", "bad-value", 3, 26, "it has no unit", "write e.g. 8GiB or 20G"),
    Case("a peak without unit", f"profiles: {{p: {{request: {SMALL}, limit: {SMALL}, peak: 2}}}}", "bad-value", 3, 86, "2 is not an amount of memory: it has no unit", "8GiB"),
    Case("peaks in the wrong order", f"profiles:\n  p:\n    request: {SMALL}\n    limit: {SMALL}\n    peak: {{typical: 2GiB, highest: 1GiB}}", "bad-value", 7, 36, "the highest peak is under the typical one", "write highest: 2 GiB"),
    Case("minutes that are none", "sweeps: {s: {factor: timeframe, assets: defi_top5, run_minutes: soon}}", "bad-value", 3, 65, "'soon' is not a number of minutes", "write e.g. 3.5"),
    Case("minutes of a task that are none", "components: {c: {}}\ntasks: {t: {component: c, run_minutes: 0}}", "bad-value", 4, 40, "0 is not a number of minutes above 0", "write e.g. 3.5"),
    Case("checkpoints that are no flag", "components: {c: {}}\ntasks: {t: {component: c, checkpoints: often}}", "bad-value", 4, 40, "checkpoints must be true or false, not 'often'", "write true or false"),
    Case("checkpoints of a sweep that are no flag", "sweeps: {s: {factor: timeframe, assets: defi_top5, checkpoints: 3}}", "bad-value", 3, 65, "checkpoints must be true or false, not 3", "write true or false"),
    Case("two modules in one text", "components: {c: {modules: [gcc/12 cuda]}}", "bad-value", 3, 28, "'gcc/12 cuda' is no name of a module", "one module in each item"),
    Case("a number for a module", "targets: {t: {provider: slurm, modules: [12]}}", "bad-value", 3, 42, "must be a non-empty text, not 12", "quote it"),
    Case("no module at all", "targets: {t: {provider: slurm, modules: []}}", "bad-value", 3, 41, "the list is empty", "write at least one"),
    Case("an empty environment", "targets: {t: {provider: slurm, conda: ''}}", "bad-value", 3, 39, "conda must be a non-empty text", "quote it"),
    Case("two lines for an environment", 'targets: {t: {provider: slurm, conda: "a\\nb"}}', "bad-value", 3, 39, "conda must be one line", "more lines in setup: |"),
    Case("a list for shell lines", "targets: {t: {provider: slurm, setup: [a, b]}}", "bad-value", 3, 39, "setup must be shell lines, not ['a', 'b']", "write  setup: |  and the lines below it"),
    Case("zero folds", "sweeps: {s: {factor: timeframe, assets: defi_top5, folds: 0}}", "bad-value", 3, 59, "folds must be a positive integer", "folds: 4"),
    Case("infinite cost", "sweeps: {s: {factor: timeframe, assets: defi_top5, costs_bps: [1e999]}}", "bad-value", 3, 64, "of at least 0, not inf", "3.5"),
    Case("profile larger than any node", NODE + "profiles:\n  big: {request: {cpu: 2, memory: 2GiB}, limit: {cpu: 32, memory: 8GiB}}", "profile-over-node", 6, 49, "limit of 32 CPU / 8 GiB fits on no node", "at most 16 CPU and 64 GiB"),
    Case("request over limit", "profiles: {p: {request: {cpu: 2, memory: 1GiB}, limit: {cpu: 1, memory: 1GiB}}}", "bad-value", 3, 31, "the request of 2 cpu is over the limit of 1", "write at most 1"),
    Case("allocatable over the node", "nodes: {n: {cpu: 1, memory: 1GiB, allocatable: {cpu: 2, memory: 1GiB}}}", "bad-value", 3, 48, "more than the node has", "at most 1 CPU"),
    Case("used over the node", "nodes: {n: {cpu: 1, memory: 1GiB, price: 1 EUR/h}}\npools: {p: {node: n, count: 1, used: {cpu: 2, memory: 1GiB}}}", "used-over-node", 4, 38, "more is used", "at most 1 CPU"),
    Case("pool with count and max", "pools: {p: {node: n, count: 1, max: 2}}\nnodes: {n: {cpu: 1, memory: 1GiB}}", "bad-value", 3, 12, "either count or max", "count: 1"),
    Case("pool with min over max", "pools: {p: {node: n, min: 3, max: 2}}\nnodes: {n: {cpu: 1, memory: 1GiB}}", "bad-value", 3, 27, "min 3 is above max 2", "min: 2 or less"),
    Case("missing price with a budget", "nodes: {n: {cpu: 1, memory: 1GiB}}\npools: {p: {node: n, max: 1}}\nbudget: {monthly: 9 EUR}", "missing-price", 3, 9, "has no price", "price: 0.1644 EUR/h"),
    Case("currency mix", NODE + "budget: {monthly: 200 USD}", "currency-mix", 3, 44, "EUR where budget.monthly is in USD", "write it in USD"),
    Case("currency mix of prices", "nodes:\n  a: {cpu: 1, memory: 1GiB, price: 1 EUR/h}\n  b: {cpu: 1, memory: 1GiB, price: 1 CHF/h}", "currency-mix", 5, 36, "CHF where nodes.a.price is in EUR", "write it in EUR"),
    Case("money without currency", "budget: {monthly: 200}", "bad-value", 3, 19, "it has no currency", "write e.g. 200 EUR"),
    Case("undefined overlay", "targets: {t: {provider: local, overlay: lrage}}\noverlays: {large: {}}", "undefined-overlay", 3, 41, "overlay 'lrage' is not defined; known: large", "write large"),
    Case("undefined overlay, none there", "targets: {t: {provider: local, overlay: large}}", "undefined-overlay", 3, 41, "overlay 'large' is not defined", "add one"),
    Case("overlay that is no mapping", "overlays: {large: 5}", "wrong-type", 3, 19, "the overlay is not a mapping", "keys it changes"),
    Case("overlays that are no mapping", "overlays: 5", "wrong-type", 3, 11, "overlays are not a mapping", "write e.g."),
    Case("cycle of a target's overlays", "targets: {t: {provider: local, overlay: a}}\noverlays:\n  a: {targets: {t: {overlay: b}}}\n  b: {targets: {t: {overlay: a}}}", "cyclic-overlay", 6, 30, "cyclic: a → b → a", "break the chain"),
    Case("overlay on itself", "overlays: {a: {overlay: a}}", "cyclic-overlay", 3, 15, "cyclic: a → a", "break the chain"),
    Case("unknown provider", "targets: {t: {provider: slrum}}", "undefined-provider", 3, 25, "known: aws, gcp, kubernetes, local, slurm", "write slurm"),
    Case("target without provider", "targets: {t: {max_workers: 1}}", "missing", 3, 11, "'targets.t.provider' is required", "add  provider: local"),
    Case("bad walltime", "targets: {t: {provider: slurm, walltime: 4h}}", "bad-value", 3, 42, "'4h' is not a walltime", 'write HH:MM:SS, e.g. "04:00:00"'),
    Case("walltime of nothing", "targets: {t: {provider: slurm, walltime: '0-00:00:00'}}", "bad-value", 3, 42, "is not a walltime", "HH:MM:SS"),
    Case("port that does not exist", "targets: {t: {provider: slurm, port: 99999}}", "bad-value", 3, 38, "99999 is no port", "write one from 1024 to 65535"),
    Case("walltime with 61 minutes", "targets: {t: {provider: slurm, walltime: 04:61:00}}", "bad-value", 3, 42, "is not a walltime", "HH:MM:SS"),
    Case("adaptive the wrong way round", "targets: {t: {provider: aws, adaptive: {minimum: 5, maximum: 2}}}", "bad-value", 3, 40, "minimum 5 is above maximum 2", "swap"),
    Case("latest image", "targets: {t: {provider: gcp, image: 'x:latest'}}", "bad-value", 3, 37, "changes under you", "name a version"),
    Case("relative mount", "components: {c: {mounts: {/data: data}}}", "bad-value", 3, 34, "/data: data is not a mount", "two absolute paths"),
    Case("variable without a value", "components: {c: {env: {A: }}}", "bad-value", 3, 27, "nothing is no single value", "write a text, a number"),
    Case("variant that is a list", "sweeps: {s: {factor: own, variants: [a, [b]], assets: defi_top5}}", "bad-value", 3, 41, "is no single value", "write a text, a number"),
    Case("taint that is a number", "targets: {t: {provider: kubernetes, tolerations: [{key: k, value: 3}]}}", "wrong-type", 3, 67, "3 is not a text", "quote it"),
    Case("task that needs itself", "components: {c: {}}\ntasks: {t: {component: c, needs: [t]}}", "circular-needs", 4, 34, "t waits for itself", "remove it"),
    Case("tasks that need each other", "components: {c: {}}\ntasks: {z: {component: c, needs: [a]}, a: {component: c, needs: [b]}, b: {component: c, needs: [a]}}", "circular-needs", 4, 65, ": a and b need each other", "remove one"),
    Case("unknown component", "components: {demeter: {}}\ntasks: {t: {component: demetre}}", "undefined-component", 4, 24, "component 'demetre' is not defined; known: demeter", "write demeter"),
    Case("unknown output kind", "components: {c: {}}\ntasks: {t: {component: c, outputs: {o: folder}}}", "bad-value", 4, 40, "'folder' is not an output", "write file, dir or a path"),
    Case("unknown factor", "sweeps: {s: {factor: calibraton, assets: defi_top5}}", "undefined-factor", 3, 22, "factor 'calibraton' is not defined", "write calibration, or give your own factor its variants"),
    Case("unknown variant", "sweeps: {s: {factor: calibration, variants: [none, platt], assets: defi_top5}}", "unknown-variant", 3, 52, "'platt' is not a variant of calibration", "choose one of none, sigmoid, isotonic"),
    Case("variant twice", "sweeps: {s: {factor: own, variants: [a, b, a], assets: defi_top5}}", "bad-value", 3, 44, "a is listed twice", "remove one"),
    Case("variant twice as a number", "sweeps: {s: {factor: own, variants: [1, true, 1.0], assets: defi_top5}}", "bad-value", 3, 47, "1.0 is listed twice", "remove one"),
    Case("no variants", "sweeps: {s: {factor: own, variants: [], assets: defi_top5}}", "bad-value", 3, 37, "the list is empty", "at least one"),
    Case("unknown group", "sweeps: {s: {factor: timeframe, assets: defi_top}}", "undefined-group", 3, 41, "group 'defi_top' is not defined", "write defi_top5"),
    Case("asset that is a number", "sweeps: {s: {factor: timeframe, assets: [A, 5]}}", "bad-value", 3, 45, "5 is not an asset", "write a group's name"),
    Case("unknown profile", "sweeps: {s: {factor: timeframe, assets: defi_top5, profile: hevy}}", "undefined-profile", 3, 61, "profile 'hevy' is not defined", "write heavy"),
    Case("unknown pool", NODE + "sweeps: {s: {factor: timeframe, assets: defi_top5, pool: q}}", "undefined-pool", 5, 58, "pool 'q' is not defined", "choose one of p"),
    Case("unknown node", "pools: {p: {node: n, max: 1}}", "undefined-node", 3, 19, "node 'n' is not defined", "define a node first"),
    Case("profile over its pool", "nodes: {n: {cpu: 2, memory: 8GiB, price: 1 EUR/h}}\npools: {p: {node: n, max: 1}}\nsweeps: {s: {factor: timeframe, assets: defi_top5, profile: heavy, pool: p}}", "profile-over-pool", 5, 61, "profile heavy does not fit on a node of pool p", "smaller profile"),
    Case("too many rows", "sweeps: {s: {factor: timeframe, assets: defi_top5, folds: 1000000}}", "too-many-rows", 3, 10, "60,000,000 rows are more than the 1,000,000", "split it"),
    Case("unknown profile of a workload", "workloads: {w: {workers: 1, profile: x, hours: 1}}", "undefined-profile", 3, 38, "profile 'x' is not defined", "choose one of heavy"),
    Case("empty scenario", "scenarios: {s: {}}", "bad-value", 3, 16, "the scenario is empty", "{sweeps: {standard: 2}"),
    Case("unknown sweep in a scenario", "scenarios: {s: {sweeps: {standrad: 2}}}", "undefined-sweep or profile", 3, 26, "'standrad' is not defined", "write standard"),
    Case("unknown workload in a scenario", "scenarios: {s: {workloads: [w]}}", "undefined-workload", 3, 28, "workload 'w' is not defined", "define a workload first"),
    Case("unknown scenario in a month", "budget: {monthly: 9 EUR, months: {may: {nromal: {sessions: 1, hours: 1}}}}\nscenarios: {normal: {sweeps: {standard: 1}}}", "undefined-scenario", 3, 41, "scenario 'nromal' is not defined", "write normal"),
    Case("unknown sweep in an option", NODE + "budget: {monthly: 9 EUR, options: {A: {sweep: s, pool: p, workers: 1}}}", "undefined-sweep", 5, 47, "sweep 's' is not defined", "define a sweep first"),
    Case("growth of nothing", "budget: {monthly: 9 EUR, growth: {g: {}}}", "bad-value", 3, 38, "either sweeps and workloads, or always_on", "{sweeps: {standard: 1}"),
    Case("share over 100 %", "policies: {margins: {ram: 140%}}", "bad-value", 3, 27, "'140%' is not between 0 % and 100 %", "write e.g. 40%"),
    Case("stuck after nothing", "policies: {stuck: {after: 0s}}", "bad-value", 3, 27, "after must be longer than nothing", "after: 10m"),
    Case("unset variable", "store: ${NOWHERE}/x", "unset-variable", 3, 8, "the environment variable NOWHERE is not set", "export NOWHERE=…, or write ${NOWHERE:-default}"),
    Case("bad variable", "store: ${1X}", "bad-variable", 3, 8, "${1X} is not a variable", "write ${NAME}"),
    Case("variable in braces", "components: {c: {image: ${IMAGE}}}", "yaml-syntax", 3, 26, "not readable as YAML", 'quote it: "${NAME}"'),
    Case("duplicate key", "store: a\nstore: b", "duplicate-key", 4, 1, "the key 'store' is written twice", "the first is on line 3"),
    Case("tabs", "nodes:\n\tn: {}", "yaml-syntax", 4, 1, "not readable as YAML", "indent with spaces, not tabs"),
    Case("second document", "---\nstore: x", "second-document", 3, 1, "a manifest is one document", "remove this  ---"),
    Case("tag", "store: !!python/object/apply:os.system [ls]", "tag", 3, 8, "is not used in manifests", "remove it"),
    Case("short tag", "store: !secret x", "tag", 3, 8, "the tag !secret", "remove it"),
    Case("NUL byte", "store: 'é\0'", "yaml-character", 3, 10, "U+0000 is not allowed", "remove it"),
    Case("half a surrogate", "store: '\ud800'", "yaml-character", 3, 9, "U+D800 is not allowed", "remove it"),
    Case("alias of nothing", "store: *x", "bad-alias", 3, 8, "*x names nothing above it", "define &x before"),
    Case("alias inside itself", "groups: &g {a: *g}", "bad-alias", 3, 16, "*g stands inside what it names", "outside of it"),
    Case("merge of a text", "groups: {<<: x}", "bad-merge", 3, 14, "<< takes a mapping", "<<: *name"),
    Case("key that is a list", "? [a]\n: b", "bad-key", 3, 3, "a key must be a single word", "key: value"),
    Case("unclosed brace", "store: {a", "yaml-syntax", 3, 10, "not readable as YAML", "check indentation, quotes and brackets"),
    Case("colon in a text", "store: a: b", "yaml-syntax", 3, 9, "mapping values are not allowed", "quote a text that contains"),
    Case("deep nesting", "groups: " + "[" * 5000, "too-deep", 3, 48, "nested more than 40 deep", "flatten it"),
    Case("aliases of aliases", bomb(), "too-large", 7, 5, "more than 100,000 values", "without aliases of aliases"),
    Case("empty", "", "empty", 1, 1, "the manifest is empty", "start with  version: 1", head=""),
    Case("only a comment", "# nothing\n", "empty", 1, 1, "the manifest is empty", "scalable init", head=""),
    Case("null", "null", "empty", 1, 1, "the manifest is empty", "start with", head=""),
    Case("a list", "- a", "not-a-mapping", 1, 1, "a manifest is a mapping", "start with  version: 1", head=""),
    Case("a word", "hello", "not-a-mapping", 1, 1, "a manifest is a mapping", "start with", head=""),
    Case("no project", "version: 1", "missing", 1, 1, "'project' is required", "add  project: {name: my-project}", head=""),
    Case("no version", "project: {name: x}", "missing", 1, 1, "'version' is required", "add  version: 1", head=""),
    Case("version 2", "version: 2\nproject: {name: x}", "bad-value", 1, 10, "2 is not a version", "version: 1", head=""),
    Case("version true", "version: true\nproject: {name: x}", "bad-value", 1, 10, "true is not a version", "version: 1", head=""),
    Case("version 1.0", "version: 1.0\nproject: {name: x}", "bad-value", 1, 10, "1.0 is not a version", "version: 1", head=""),
    Case("version as text", "version: '1'\nproject: {name: x}", "bad-value", 1, 10, "'1' is not a version", "version: 1", head=""),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_broken_manifest_gives_one_finding_at_its_place_with_a_remedy(case: Case) -> None:
    error = refused(case.head + case.text)

    issue = only(error)
    assert issue.code == case.code
    assert (issue.place.line, issue.place.column) == (case.line, case.column)
    assert case.says in str(issue)
    assert case.remedy in issue.remedy
    assert f"scalable.yaml:{case.line}:{case.column}" in str(error)
    assert len(str(error)) < 2000


@pytest.mark.parametrize("project", ["{}", "{name: }", "{name: ''}", "{name: '  '}", "{name: 5}", "{name: [a]}"])
def test_a_project_without_a_name_is_told_so_in_the_agreed_words(project: str) -> None:
    error = refused(f"version: 1\nproject: {project}\n")

    issue = only(error)
    assert issue.path == "project.name"
    assert issue.message == "'project.name' is required and must be a non-empty string"
    assert issue.place.line == 2
    assert issue.remedy


def test_a_manifest_error_is_a_value_error_of_this_package() -> None:
    error = refused("")

    assert isinstance(error, ValueError)
    assert isinstance(error, ScalableError)
    assert not error.report.ok


def test_overlays_that_stand_on_each_other_are_cyclic_from_both_ends() -> None:
    error = refused(
        HEAD + "targets: {t: {provider: local, overlay: a}}\noverlays:\n  a: {overlay: b}\n  b: {overlay: a}\n"
    )

    assert [(issue.code, issue.place.line) for issue in error.report.errors] == [
        ("cyclic-overlay", 5),
        ("cyclic-overlay", 6),
    ]
    assert "a → b → a" in str(error) and "b → a → b" in str(error)


def test_an_overlay_on_an_undefined_one_is_refused_even_if_no_target_uses_it() -> None:
    issue = only(refused(HEAD + "overlays:\n  a: {overlay: bb}\n  b: {}\n"))

    assert (issue.path, issue.code, issue.place.line) == ("overlays.a.overlay", "undefined-overlay", 4)


def test_an_undefined_overlay_asked_for_lists_those_there_are() -> None:
    with pytest.raises(ManifestError, match="overlay 'smal' is not defined; known: large, small"):
        load_text(HEAD + "overlays: {large: {}, small: {}}\n", env={}, overlay="smal")


def test_an_error_in_an_overlay_is_shown_where_the_overlay_stands() -> None:
    issue = only(
        refused(
            HEAD + "targets: {t: {provider: local, overlay: a}}\noverlays:\n  a: {targets: {t: {max_workers: 0}}}\n"
        )
    )

    assert issue.path == "targets.t.max_workers"
    assert (issue.place.line, issue.place.column) == (5, 34)


def test_all_errors_come_at_once_in_the_order_of_the_text() -> None:
    error = refused(
        "version: 1\n"
        "project: {}\n"
        "targets: {t: {provider: local, max_workers: 0}, u: {provider: slrum}}\n"
        "components: {c: {memory: 8, cpu: 2}}\n"
        "tasks: {a: {component: c}, b: {component: nope}}\n"
        "sweeps: {s: {factor: calibraton, assets: defi_top5}}\n"
        "policies: {fork: maybe}\n"
        "store: ${NOWHERE}\n"
    )

    found = [(issue.place.line, issue.path) for issue in error.report.errors]
    assert found == sorted(found, key=lambda pair: pair[0])
    assert {path for _, path in found} >= {
        "project.name",
        "targets.t.max_workers",
        "targets.u.provider",
        "components.c.memory",
        "components.c.cpu",
        "tasks.b.component",
        "sweeps.s.factor",
        "policies.fork",
        "store",
    }
    assert "tasks.a.component" not in {path for _, path in found}, "c is there, though it is wrong itself"
    assert all(f"scalable.yaml:{issue.place.line}:{issue.place.column}" in str(error) for issue in error.report.errors)


def test_every_duplicate_key_is_reported() -> None:
    error = refused("a: 1\na: 2\nb: {c: 1, c: 2}\n")

    found = [(issue.code, issue.place.line) for issue in error.report.errors]
    assert [line for code, line in found if code == "duplicate-key"] == [2, 3]
    assert ("unknown-key", 1) in found, "the rest is checked all the same"


def test_the_text_shows_the_line_with_the_remedy_under_the_wrong_word() -> None:
    error = refused(HEAD + "targets: {t: {provider: local, max_workers: 0}}\n")

    assert str(error).splitlines() == [
        "scalable.yaml:3:45  targets.t.max_workers: max_workers must be a positive integer, not 0",
        "     2 | project: {name: test}",
        "     3 | targets: {t: {provider: local, max_workers: 0}}",
        "       |                                             ^ write e.g. max_workers: 4",
    ]


SECRET = "hunter2-s3cr3t"

LEAKS = [
    "targets:\n  t:\n    provider: local\n    max_workers: ${TOKEN}\n",
    "targets:\n  t:\n    provider: ${TOKEN}\n",
    "targets:\n  t:\n    provider: slurm\n    walltime: x${TOKEN}\n",
    "targets:\n  t:\n    provider: gcp\n    image: ${TOKEN}:latest\n",
    "nodes:\n  n:\n    cpu: ${TOKEN}\n    memory: 1GiB\n",
    "nodes:\n  n:\n    cpu: 1\n    memory: ${TOKEN}\n",
    "nodes:\n  n:\n    cpu: 1\n    memory: 1GiB\n    price: ${TOKEN}/h\n",
    "budget:\n  monthly: ${TOKEN}\n",
    "policies:\n  fork: ${TOKEN}\n",
    "policies:\n  fork: {allow: ['x ${TOKEN}']}\n",
    "policies:\n  margins:\n    ram: ${TOKEN}\n",
    "policies:\n  margins: ${TOKEN}\n",
    "policies:\n  stuck:\n    after: ${TOKEN}\n",
    "tasks:\n  t:\n    component: ${TOKEN}\n",
    "components:\n  c:\n    mounts:\n      /a: ${TOKEN}\n",
    "components: ${TOKEN}\n",
    "sweeps:\n  s:\n    factor: ${TOKEN}\n    assets: ${TOKEN}\n",
    "sweeps:\n  s:\n    factor: calibration\n    variants: ['${TOKEN}']\n    assets: defi_top5\n",
    "sweeps:\n  s:\n    factor: calibration\n    assets: defi_top5\n    run_minutes: ${TOKEN}\n",
    "scenarios: {s: {workloads: ['${TOKEN}']}}\n",
    "profiles:\n  p:\n    request: {cpu: 1, memory: 1GiB}\n    limit: {cpu: 1, memory: 1GiB}\n    peak: ${TOKEN}\n",
    "store: ${TOKEN}\nzzz: ${TOKEN}\n",
]


@pytest.mark.parametrize("secret", [SECRET, SECRET * 10, "it's\n" + SECRET], ids=["short", "long", "quoted"])
@pytest.mark.parametrize("text", LEAKS)
def test_what_a_variable_holds_never_appears_in_a_message(text: str, secret: str) -> None:
    error = refused(HEAD + text, TOKEN=secret)

    shown = "".join(traceback.format_exception(error)) + repr(error.report)
    assert "hunter2" not in shown
    assert "${TOKEN}" in str(error)


def test_a_file_of_10_megabytes_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "scalable.yaml"
    path.write_bytes(b"# " + b"x" * 10_000_000)

    with pytest.raises(ManifestError) as caught:
        load_file(path, env={})

    issue = only(caught.value)
    assert issue.code == "too-large"
    assert "too large for a manifest; at most 1024 KiB are read" in issue.message
    assert issue.remedy == "move data out of it"


def test_a_file_that_is_not_utf_8_names_the_byte_and_its_line(tmp_path: Path) -> None:
    path = tmp_path / "scalable.yaml"
    path.write_bytes(HEAD.encode() + b"store: caf\xe9\n")

    with pytest.raises(ManifestError) as caught:
        load_file(path, env={})

    issue = only(caught.value)
    assert issue.code == "not-utf-8"
    assert "byte 0xe9 on line 3 is not UTF-8" in issue.message
    assert issue.remedy == "save the file as UTF-8"


@given(st.text(max_size=200))
def test_any_text_is_refused_or_loaded_but_never_crashes(text: str) -> None:
    try:
        load_text(text, env={})
    except ManifestError as error:
        assert error.report.errors


YAML_VALUES = st.recursive(
    st.sampled_from(["1", "-1", "x", "''", "~", "8GiB", "2h", "1 EUR/h", "true", "defi_top5", "local", "1e400"]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]"),
        st.dictionaries(
            st.sampled_from(
                ["cpu", "memory", "node", "request", "limit", "factor", "assets", "provider", "peak", "max"]
            ),
            inner,
            max_size=4,
        ).map(lambda items: "{" + ", ".join(f"{key}: {value}" for key, value in items.items()) + "}"),
    ),
    max_leaves=8,
)

SECTIONS = ["targets", "components", "tasks", "overlays", "nodes", "pools", "profiles", "groups", "sweeps", "budget"]


SECTIONS += ["workloads", "scenarios", "policies", "store"]


@given(st.dictionaries(st.sampled_from(SECTIONS), YAML_VALUES, max_size=4), st.booleans())
def test_any_shape_is_refused_with_places_or_loaded_but_never_crashes(sections: dict[str, str], named: bool) -> None:
    body = "".join(f"{name}: {{a: {value}}}\n" if named else f"{name}: {value}\n" for name, value in sections.items())
    try:
        load_text(HEAD + body, env={})
    except ManifestError as error:
        assert all(issue.place.line >= 1 and issue.message for issue in error.report.errors)
