"""The protection of a run from others: certificates for its members, and folders that only its user can enter.

Workers have a key of their own, whose certificate says that it is a worker's: ``scalable.worker.rights`` keeps whoever
has it from acting as a client. The key that signs both certificates is forgotten as soon as they are made.

Dask keeps its scratch folders in one place that all users of a machine share, uses a folder of that name whoever made
it, and puts it first on ``sys.path``: another user could plant a module there that the driver imports. So scheduler,
workers and notes get a folder that only their user can enter, and no scratch folder stays on the path.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from distributed.security import Security

from scalable.observe.folders import CLOCKS_DIFFER
from scalable.worker.rights import WORKER

KEYS = ("ca.pem", "cert.pem", "key.pem")
LONGEST_RUN = timedelta(days=365)


@dataclass(frozen=True)
class Identity:
    """A key with its certificate and that of the authority which signed it, as texts."""

    authority: str
    certificate: str
    key: str = field(repr=False)

    def write(self, folder: Path) -> None:
        """Write the files that ``KEYS`` names into a folder that only its user can enter."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
        for name, text in zip(KEYS, (self.authority, self.certificate, self.key), strict=True):
            (folder / name).unlink(missing_ok=True)  # an old one may have other permissions
            private = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(private, "w") as file:
                file.write(text)


class RunSecurity(Security):
    """The certificates of a run in the driver's process, which has both keys."""

    def __init__(self, driver: Identity, worker: Identity) -> None:
        self.driver, self.worker = driver, worker
        super().__init__(
            tls_ca_file=driver.authority,
            tls_scheduler_cert=driver.certificate, tls_scheduler_key=driver.key,
            tls_client_cert=driver.certificate, tls_client_key=driver.key,
            tls_worker_cert=worker.certificate, tls_worker_key=worker.key,
            require_encryption=True,
        )  # fmt: skip


def certified(handout: Path, *, worker_clients: bool = False) -> RunSecurity:
    """Make the certificates of a run, and write what workers need into a private folder.

    With ``worker_clients`` workers get the driver's, so that their tasks can act as clients.
    """
    driver, worker = new_identities(None, WORKER)
    if worker_clients:
        worker = driver
    worker.write(handout)
    return RunSecurity(driver, worker)


def new_identities(*units: str | None) -> list[Identity]:
    """Make an identity for each organisational unit, all signed by one authority whose key nobody keeps.

    The keys are elliptic: Dask's own RSA keys take 40 times as long.
    """
    from cryptography import x509  # only who starts a cluster needs it
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    now = datetime.now(UTC)

    def named(common: str, unit: str | None = None) -> Any:
        parts = [x509.NameAttribute(x509.NameOID.COMMON_NAME, common)]
        if unit is not None:
            parts.append(x509.NameAttribute(x509.NameOID.ORGANIZATIONAL_UNIT_NAME, unit))
        return x509.Name(parts)

    def signed(subject: Any, key: Any, *, signs: bool) -> Any:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - CLOCKS_DIFFER)
            .not_valid_after(now + LONGEST_RUN)
            .add_extension(x509.BasicConstraints(ca=signs, path_length=0 if signs else None), critical=True)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName("scalable")]), critical=False)
            .sign(authority, SHA256())
            .public_bytes(Encoding.PEM)
            .decode()
        )

    authority, issuer = ec.generate_private_key(ec.SECP256R1()), named("scalable run")
    own = signed(issuer, authority, signs=True)
    identities = []
    for unit in units:
        key = ec.generate_private_key(ec.SECP256R1())
        text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
        identities.append(Identity(own, signed(named("scalable", unit), key, signs=False), text))
    return identities


def forget(folder: Path) -> None:
    """Remove the keys of a cluster that is closed."""
    for name in KEYS:
        (folder / name).unlink(missing_ok=True)


class Scratch:
    """A folder of mode 0700 that is removed with its owner, or earlier by ``remove``."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="scalable-"))
        self.remove = weakref.finalize(self, remove, self.path, os.getpid())


def remove(folder: Path, owner: int) -> None:
    """Remove a folder, unless this is a forked child of its owner."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)
