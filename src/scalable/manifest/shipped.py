"""What every manifest has without writing it: the three worker sizes and the asset groups. One's own win."""

from __future__ import annotations

from scalable.catalogue import GROUPS
from scalable.manifest.machines import Peak, Profile, Resources
from scalable.manifest.models import Manifest
from scalable.quantities import Cpu, Memory


def size(cpu: int, gib: int) -> Resources:
    return Resources(cpu=Cpu.of(cpu), memory=Memory.of_gib(gib))


def peak(typical: int, highest: int) -> Peak:
    return Peak(typical=Memory.of_gib(typical), highest=Memory.of_gib(highest))


PROFILES = {
    "standard": Profile(request=size(2, 2), limit=size(4, 8), peak=peak(2, 2)),
    "heavy": Profile(request=size(2, 12), limit=size(4, 24), peak=peak(12, 15), alone=True, min_nodes=2),
    "wfrb": Profile(request=size(1, 2), limit=size(2, 4), peak=peak(2, 3)),
}


def with_shipped(manifest: Manifest) -> Manifest:
    groups = {name: list(assets) for name, assets in GROUPS.items()}
    return manifest.model_copy(
        update={"profiles": {**PROFILES, **manifest.profiles}, "groups": {**groups, **manifest.groups}}
    )
