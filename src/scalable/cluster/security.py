"""What keeps others out of a run: certificates that only its members have, and folders that only its user can enter.

Dask keeps its scratch folders in one place that all users of a machine share, uses a folder of that name whoever made
it, and puts it first on ``sys.path``: another user could plant a module there that the driver imports. So scheduler,
workers and notes get a folder that only their user can enter, and no scratch folder stays on the path.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from datetime import UTC, datetime, timedelta
from pathlib import Path

from distributed.security import Security

KEYS = ("ca.pem", "cert.pem", "key.pem")
CLOCKS_DIFFER = timedelta(days=1)  # between the machines of a run, at most
LONGEST_RUN = timedelta(days=365)


def certified(folder: Path) -> Security:
    """Make the certificate that all members of a run share, and write what workers need into a private folder."""
    key, certificate = new_certificate()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    for name, text in zip(KEYS, (certificate, certificate, key), strict=True):
        (folder / name).unlink(missing_ok=True)  # an old one may have other permissions
        private = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(private, "w") as file:
            file.write(text)
    roles = ("scheduler", "worker", "client")
    files = {f"tls_{role}_{kind}": text for role in roles for kind, text in (("cert", certificate), ("key", key))}
    return Security(tls_ca_file=certificate, require_encryption=True, **files)


def new_certificate() -> tuple[str, str]:
    """A key and a certificate that it signs itself, as texts. Elliptic: Dask's own RSA keys take 40 times as long."""
    from cryptography import x509  # only who starts a cluster needs it
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "scalable")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCKS_DIFFER)
        .not_valid_after(now + LONGEST_RUN)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("scalable")]), critical=False)
        .sign(key, SHA256())
    )
    text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    return text, certificate.public_bytes(Encoding.PEM).decode()


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
