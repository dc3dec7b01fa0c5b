"""Who has a worker's certificate, what that certificate is good for, and what a worker may say."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from distributed.protocol.core import dumps, loads
from distributed.protocol.serialize import Pickled, Serialize, Serialized, ToPickle

from scalable.cluster.clouds.start import packed, unpack
from scalable.cluster.kubernetes.cluster import handed_out
from scalable.cluster.security import Identity, certified, new_identities
from scalable.findings import Finding
from scalable.worker import rights
from scalable.worker.rights import AT_A_WORKER, WORKER, Refusals, at_a_scheduler, is_a_workers, unit, without_pickles


def shaken(server: Identity, client: Identity, folder: Path) -> dict[str, Any] | None:
    """Return the client's certificate as the server sees it after a handshake; both trust the server's authority."""
    contexts = {}
    for purpose, identity in ((ssl.Purpose.CLIENT_AUTH, server), (ssl.Purpose.SERVER_AUTH, client)):
        place = folder / purpose.name
        identity.write(place)
        context = contexts[purpose] = ssl.create_default_context(purpose, cadata=server.authority)
        context.load_cert_chain(place / "cert.pem", place / "key.pem")
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    serving = contexts[ssl.Purpose.CLIENT_AUTH].wrap_bio(there, back, server_side=True)
    calling = contexts[ssl.Purpose.SERVER_AUTH].wrap_bio(back, there)
    waiting = [calling, serving]
    for _ in range(10):
        for side in list(waiting):
            try:
                side.do_handshake()
                waiting.remove(side)
            except ssl.SSLWantReadError:
                pass
    assert not waiting
    return serving.getpeercert()


def test_a_certificate_says_whose_it_is_and_both_sides_accept_it(tmp_path: Path) -> None:
    driver, worker = new_identities(None, WORKER)
    assert unit(shaken(driver, worker, tmp_path)) == WORKER
    assert unit(shaken(worker, driver, tmp_path)) is None


def forged(signer: Identity) -> Identity:
    """A certificate without a unit, as the driver's is, that somebody signed with the key of a worker."""
    key = ec.generate_private_key(ec.SECP256R1())
    above = x509.load_pem_x509_certificate(signer.certificate.encode())
    signing = load_pem_private_key(signer.key.encode(), None)
    assert isinstance(signing, ec.EllipticCurvePrivateKey)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "scalable")]))
        .issuer_name(above.subject)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(above.not_valid_before_utc)
        .not_valid_after(above.not_valid_after_utc)
        .sign(signing, SHA256())
    )
    text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    chain = certificate.public_bytes(Encoding.PEM).decode() + signer.certificate
    return Identity(signer.authority, chain, text)


def test_who_has_a_workers_key_cannot_make_a_drivers_certificate(tmp_path: Path) -> None:
    driver, worker = new_identities(None, WORKER)
    with pytest.raises(ssl.SSLCertVerificationError, match="certificate verify failed"):
        shaken(driver, forged(worker), tmp_path)


def test_runs_do_not_accept_each_others_certificates(tmp_path: Path) -> None:
    [driver], [stranger] = new_identities(None), new_identities(None)
    with pytest.raises(ssl.SSLCertVerificationError, match="certificate verify failed"):
        shaken(driver, stranger, tmp_path)


def test_workers_are_handed_a_key_of_their_own_and_nobody_the_authoritys(tmp_path: Path) -> None:
    security = certified(tmp_path)
    written = (tmp_path / "key.pem").read_text()
    assert is_a_workers(tmp_path / "cert.pem")
    keys = [security.get_tls_config_for_role(role)["key"] for role in ("worker", "client", "scheduler")]
    assert keys == [written, security.driver.key, security.driver.key]
    assert written != security.driver.key
    assert security.driver.key not in repr(security.driver)
    assert written not in repr(security)
    assert "PRIVATE KEY" not in (tmp_path / "ca.pem").read_text() + (tmp_path / "cert.pem").read_text()


def test_the_secret_of_pods_and_the_package_of_clouds_hold_a_workers_key_only(tmp_path: Path) -> None:
    security, files = handed_out(tmp_path, "image")
    driver = security.get_tls_config_for_role("client")["key"]
    assert files["key.pem"].decode() == security.get_tls_config_for_role("worker")["key"]
    assert not [name for name, content in files.items() if driver.encode() in content]
    cloud = certified(tmp_path / "handout")
    unpack(packed(tmp_path / "handout", {}), tmp_path / "there")
    assert (tmp_path / "there" / "key.pem").read_text() == cloud.worker.key
    assert not [file for file in (tmp_path / "there").iterdir() if cloud.driver.key in file.read_text()]


def test_a_manifest_can_let_workers_be_clients(tmp_path: Path) -> None:
    security = certified(tmp_path, worker_clients=True)
    assert not is_a_workers(tmp_path / "cert.pem")
    assert (tmp_path / "key.pem").read_text() == security.driver.key


class Opened(Exception):  # noqa: N818 - what happened
    """A pickle was read."""


def open_it() -> None:
    raise Opened


class Trap:
    def __reduce__(self) -> Any:
        return open_it, ()


@pytest.mark.parametrize(
    "more", [ToPickle(Trap()), [Serialize(3), {"deep": ToPickle(Trap())}]], ids=["alone", "among others"]
)
def test_a_pickle_from_a_worker_is_kept_closed(more: Any) -> None:
    message = {"op": "identity", "more": more}
    with pytest.raises(Opened):  # as Dask would
        from_dask(dumps(message))
    found = asyncio.run(without_pickles(dumps(message), deserialize=True))
    kinds = {type(part) for part in parts_of(found["more"])}
    assert Pickled in kinds
    assert kinds <= {Pickled, Serialized}


def from_dask(frames: list[Any]) -> Any:
    return loads(frames, deserialize=False)


def parts_of(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | tuple):
        for part in value.values() if isinstance(value, dict) else value:
            yield from parts_of(part)
    else:
        yield value


def test_a_message_without_pickles_is_read_as_dask_reads_it() -> None:
    message = {"op": "task-finished", "key": ("x", 1), "nbytes": 3, "text": "a text with __Pickled__ in it", "set": {1}}
    assert asyncio.run(without_pickles(dumps(message))) == from_dask(dumps(message)) == message


@pytest.mark.parametrize(
    ("message", "allowed"),
    [
        ({"op": "heartbeat_worker", "address": "tls://10.0.0.1:1", "now": 1.0, "metrics": {}, "executing": {}}, True),
        ({"op": "heartbeat_worker", "address": "tls://10.0.0.1:1", "resources": {"model": 100}}, False),
        ({"op": "who_has", "keys": ["x"]}, True),
        ({"op": "who_has"}, False),  # would name every key
        ({"op": "who_has", "keys": []}, False),
        ({"op": "run_function"}, False),
        ({"op": "retire_workers"}, False),
        ({"op": ["identity"]}, False),
        ({"op": None}, False),
    ],
)
def test_a_scheduler_answers_workers_what_workers_ask(message: dict[str, Any], allowed: bool) -> None:
    assert at_a_scheduler(lambda message: False).allow(message) is allowed


def test_a_worker_gives_others_results_and_does_nothing_for_them() -> None:
    assert sorted(AT_A_WORKER.calls) == ["close", "get_data", "identity", "ping"]
    assert not AT_A_WORKER.messages


def test_what_is_refused_again_and_again_is_told_of_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("scalable.worker.rights.time.monotonic", lambda: now)
    told: list[Finding] = []
    refused = Refusals(told.append)
    for _ in range(50):
        refused("run_function", "tls://10.0.0.9:4321")
    assert [finding.code for finding in told] == ["call-refused"]
    assert "'run_function' was refused to tls://10.0.0.9:4321" in told[0].message
    now += 61
    refused("run_function", "tls://10.0.0.9:4321")
    assert len(told) == 2
    for number in range(1000):
        refused(f"made-up-{number}" * 100, "tls://10.0.0.9:4321")
    assert len(told) <= rights.MOST_TOLD + 1
    assert max(len(finding.message) for finding in told) < 300
