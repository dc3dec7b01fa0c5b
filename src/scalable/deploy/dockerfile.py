"""The image of driver and workers: a pinned Python, the packages of this environment, and the project's code.

The code belongs to root and the process to a user with a number, so nothing in the image can be changed by what runs in
it. Versions are those installed here, as far as they are: tasks cannot be read where dask or cloudpickle differ.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator
from functools import lru_cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from scalable import __version__
from scalable.cluster.kubernetes.objects import USER
from scalable.deploy.deployment import HOME, STATE, Deployment
from scalable.wording import DISTRIBUTION, own_distribution

FILESYSTEMS = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "az": "adlfs", "abfs": "adlfs"}
"""Which package reads an object store, by the URL's scheme."""
WHEELS, REQUIREMENTS = "wheels", "requirements.txt"
OWN_IGNORED = ".dockerignore"
IGNORED = (
    ".git", ".scalable", "**/.venv", "**/__pycache__", "**/*.db", "**/.env", "**/.env.*", "**/*.env", "**/*.pem",
    "**/*.key", "**/kubeconfig*", ".kube", ".ssh", ".aws", "**/.netrc",
)  # fmt: skip
"""What is in no image: histories, results, and files in which people keep secrets."""


def files(deployment: Deployment, folder: Path, project: Path) -> dict[str, str]:
    """Return the Dockerfile and the ignore file beside it; Docker reads only that one, so the project's is in it."""
    manifest_folder, around = folder.resolve(), project.resolve()
    inside = (
        [str(manifest_folder.relative_to(around))]
        if manifest_folder.is_relative_to(around) and manifest_folder != around
        else []
    )
    ignored = "".join(f"{pattern}\n" for pattern in (*own_ignored(project / OWN_IGNORED), *IGNORED, *inside))
    return {"Dockerfile": dockerfile(deployment, project), "Dockerfile.dockerignore": ignored}


def own_ignored(file: Path) -> list[str]:
    """Return the project's ignore patterns. They stand before ours, so that no exception lets a secret in."""
    if not file.is_file():
        return []
    return [
        f"# {OWN_IGNORED} of the project",
        *file.read_text(encoding="utf-8", errors="replace").splitlines(),
        "# and besides",
    ]


def dockerfile(deployment: Deployment, project: Path) -> str:
    wanted = [f"{DISTRIBUTION}[{','.join(extras(deployment))}]=={__version__}", *filesystem(deployment)]
    pins, missing = pinned(tuple(wanted))
    wheels = f"COPY {WHEELS}/ /wheels/\n" if (project / WHEELS).is_dir() else ""
    more = f"COPY {REQUIREMENTS} /tmp/requirements.txt\n" if (project / REQUIREMENTS).is_file() else ""
    install = ["pip install --no-cache-dir --constraint /tmp/constraints.txt"]
    install += ["--find-links /wheels"] if wheels else []
    install += ["--requirement /tmp/requirements.txt"] if more else []
    first = f"pip wheel --no-deps -w {WHEELS} CLONE"
    own = "" if wheels else f"# {DISTRIBUTION} is on no index; in the project, before the image is built:  {first}\n"
    left = f"# Not installed where this was written, so not pinned: {', '.join(missing)}\n" if missing else ""
    return f"""# The image of driver and workers; the folder to build it in is the project's.
ARG BASE=python:{platform.python_version()}-slim
FROM ${{BASE}}
ARG PACKAGES="{" ".join(wanted)}"
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PYTHONPATH={HOME} PIP_DISABLE_PIP_VERSION_CHECK=1
{own}{left}COPY <<END /tmp/constraints.txt
{pins}END
{wheels}{more}RUN {" ".join(install)} ${{PACKAGES}} && rm -rf /tmp/*
WORKDIR {HOME}
COPY --chown=0:0 . {HOME}
RUN mkdir -p {STATE} && chmod -R a+rX,go-w {HOME}
USER {USER}:{USER}
CMD ["python", "-m", "scalable", "--help"]
"""


def extras(deployment: Deployment) -> list[str]:
    names = ["kubernetes"]
    plugins = (sweep.plugin for sweep in deployment.manifest.sweeps.values() if sweep.run is None)
    names += dict.fromkeys(plugin.extra for plugin in plugins if plugin is not None and plugin.extra)
    if any(destination.purpose == "store" for destination in deployment.destinations):
        names.append("postgres")
    return names


def filesystem(deployment: Deployment) -> list[str]:
    name = FILESYSTEMS.get(deployment.manifest.artefacts.partition("://")[0])
    return [name] if name else []


@lru_cache  # a hundred packages are read
def pinned(wanted: tuple[str, ...]) -> tuple[str, list[str]]:
    """Return lines for pip with the versions of these and all they need, and the names of those not installed."""
    versions: dict[str, str] = {}
    missing: set[str] = set()
    waiting = [Requirement(text) for text in wanted]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        requirement = waiting.pop()
        name, more = canonicalize_name(requirement.name), frozenset(requirement.extras)
        if (name, more) in seen:
            continue
        seen.add((name, more))
        try:
            installed = (own_distribution() if name == DISTRIBUTION else None) or distribution(requirement.name)
        except PackageNotFoundError:
            missing.add(name)
            continue
        versions[name] = installed.version
        waiting += needed(installed, more)
    versions.pop(DISTRIBUTION, None)  # its version is asked for, and a wheel may bring it
    return "".join(f"{name}=={version}\n" for name, version in sorted(versions.items())), sorted(missing)


def needed(package: Distribution, more: frozenset[str]) -> Iterator[Requirement]:
    for text in package.requires or ():
        requirement = Requirement(text)
        if requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in (*more, "")):
            yield requirement
