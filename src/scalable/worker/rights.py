"""The calls that a member of a run may make, by the certificate that it shows to a scheduler or worker.

Dask lets every member do everything: whoever has a worker's key could submit tasks, have the scheduler run a function
in the driver's process, or have another worker run one. So a worker's certificate names its unit, and its connections
get through only what Dask's workers say to a scheduler or to each other. The certificate is looked at once per
connection; then each message costs a look into a set. Connections of the driver are Dask's own, unchanged.

Messages of workers are never unpickled by who receives them, since a pickle runs code before any of its message can be
looked at. What a worker answers to a task that it was given is another matter: that is read by who asked for it.
"""

from __future__ import annotations

import logging
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import Any

import msgpack  # type: ignore[import-untyped]
from distributed.comm import registry, tcp
from distributed.comm.core import FatalCommClosedError
from distributed.comm.tcp import TLS, TLSConnector, TLSListener
from distributed.comm.utils import from_frames
from distributed.core import error_message
from distributed.protocol.serialize import Pickled, Serialized, msgpack_decode_default
from distributed.protocol.utils import msgpack_opts

from scalable.errors import UsageError
from scalable.findings import Finding
from scalable.worker.runners import OP

logger = logging.getLogger("scalable")

WORKER = "scalable worker"
"""The organisational unit in the certificates of workers; those of the driver name none."""
JOINING = "register-worker"
REMEDY = (
    "submit work from the driver, or connect with the keys that run.json names; "
    "policies: {worker_clients: allowed} lets workers do what the driver may"
)
AGAIN_AFTER_S = 60.0  # until a call that is refused again and again is told of again
MOST_TOLD = 100  # different calls that are told of, since their names are the caller's choice


class NotAClientError(UsageError, ValueError):
    """A task asked for a Dask client on a worker whose certificate is not one of a client."""

    def __init__(self) -> None:
        super().__init__(
            "a task asked for a Dask client (get_client, worker_client or what is built on them), and workers of this "
            f"run may not act as clients; {REMEDY}"
        )


def always(message: Mapping[str, Any]) -> bool:
    return True


def names_keys(message: Mapping[str, Any]) -> bool:
    """Return whether a call asks for certain keys; without any, the answer would name all."""
    return bool(message.get("keys"))


BEAT = frozenset({"op", "reply", "close", "serializers", "address", "now", "metrics", "executing", "extensions"})


def only_beats(message: Mapping[str, Any]) -> bool:
    """Return whether a heartbeat says no more than those of workers do; Dask takes any worker's resources from one."""
    return message.keys() <= BEAT


@dataclass(frozen=True)
class Rights:
    """The messages that a worker may send to a server: each call with a check of its arguments, and streams."""

    calls: Mapping[str, Callable[[Mapping[str, Any]], bool]]
    messages: frozenset[str] = frozenset()

    def allow(self, message: Mapping[str, Any]) -> bool:
        op = message["op"]
        return isinstance(op, str) and op in self.calls and self.calls[op](message)


AT_A_WORKER = Rights(dict.fromkeys(("identity", "ping", "get_data", "close"), always))
"""Workers fetch the inputs of their tasks from each other, by name."""
LOCKS = ("register", "acquire", "release", "refresh_leases", "value", "close")  # of Dask's semaphores, and so its locks


def at_a_scheduler(may_retire: Callable[[Mapping[str, Any]], bool]) -> Rights:
    """Return what a worker may say to its scheduler; ``may_retire`` decides whether it may take a worker out."""
    calls = [JOINING, "identity", "close", *(f"semaphore_{call}" for call in LOCKS)]
    messages = ["task-finished", "task-erred", "release-worker-data", "add-keys", "long-running", "reschedule"]
    messages += ["keep-alive", "log-event", "worker-status-change", "request-refresh-who-has", "steal-response"]
    return Rights(
        {
            **dict.fromkeys(calls, always),
            "heartbeat_worker": only_beats,
            "who_has": names_keys,
            "retire_workers": may_retire,
        },
        frozenset([*messages, "close-stream", OP]),
    )


class Refusals:
    """Tells of calls that were refused, each kind of call once a minute at most."""

    def __init__(self, tell: Callable[[Finding], None]) -> None:
        self.tell = tell
        self.told: dict[str, float] = {}
        """When a call was told of last, by its name."""

    def __call__(self, op: object, peer: str, reason: str = "workers may not ask for that") -> None:
        name, now = str(op)[:60], time.monotonic()
        if now - self.told.get(name, -AGAIN_AFTER_S) < AGAIN_AFTER_S or len(self.told) >= MOST_TOLD:
            return
        self.told[name] = now
        text = f"{name!r} was refused to {peer}, which has the key of a worker: {reason}"
        finding = Finding.warning("call-refused", "", text, f"find out what runs at {peer}; if you want it, {REMEDY}")
        logger.warning("%s", finding.message)
        self.tell(finding)


async def without_pickles(frames: list[Any], **options: Any) -> Any:
    """Read a message as a scheduler does, but leave pickles in it as they are."""
    if b"__Pickled__" not in bytes(frames[0]):
        return await from_frames(frames, **{**options, "deserialize": False})

    def decoded(part: dict[str, Any]) -> Any:
        for mark, kind in (("__Serialized__", Serialized), ("__Pickled__", Pickled)):
            if (at := part.get(mark, 0)) > 0:
                header = msgpack.loads(frames[at], object_hook=msgpack_decode_default, use_list=False, **msgpack_opts)
                return kind(header, frames[at + 1 : at + 1 + header["num-sub-frames"]])
        return msgpack_decode_default(part)

    return msgpack.loads(frames[0], object_hook=decoded, use_list=False, **msgpack_opts)


class WorkerConnection(TLS):
    """An incoming connection of a worker, which reads only what a worker may say."""

    def __init__(
        self, stream: Any, local: str, peer: str, *, rights: Rights, refused: Callable[[object, str], None]
    ) -> None:
        super().__init__(stream, local, peer, deserialize=False)
        self.rights, self.refused = rights, refused
        self.streams = False
        """It has asked to be a worker of the scheduler: what follows are messages of its stream."""

    # Dask's own reading with another decoder: a copy of its lines would miss changes of what is sent
    read_message = FunctionType(
        TLS.read.__code__, {**vars(tcp), "from_frames": without_pickles}, "read_message", TLS.read.__defaults__
    )

    async def read(self, deserializers: Any = None) -> Any:
        while True:
            message = await self.read_message(deserializers)
            if self.streams:
                return self.allowed(message)
            if not isinstance(message, dict) or "op" not in message or self.rights.allow(message):
                self.streams = isinstance(message, dict) and message.get("op") == JOINING
                return message
            await self.refuse(message)

    def allowed(self, messages: Any) -> list[Any]:
        """Return what may be said, in the name of this worker: Dask would believe another name in a message."""
        kept = []
        for message in messages if isinstance(messages, tuple | list) else (messages,):
            if not isinstance(message, dict):
                kept.append(message)
            elif message.get("op") in self.rights.messages:
                message.pop("worker", None)
                kept.append(message)
            else:
                self.refused(message.get("op"), self.peer_address)
        return kept

    async def refuse(self, message: dict[str, Any]) -> None:
        """Tell the caller why, in the form in which Dask raises it there."""
        op = message["op"]
        self.refused(op, self.peer_address)
        text = f"{op!r} is not for workers, and this connection has the key of one; {REMEDY}"
        if op == "register-client":
            await self.write([{"op": "stream-start", "error": text}])
        elif message.get("reply", True):
            await self.write(error_message(PermissionError(text), status="uncaught-error"))


if "from_frames" not in TLS.read.__code__.co_names:  # pragma: no cover - then pickles of workers would be read
    raise ImportError("this version of distributed reads its messages in another way; install the version before it")


def limit(listener: Any, rights: Rights, refused: Callable[[object, str], None]) -> None:
    """Have a server that was just started look at who connects; one without certificates is left as it is."""
    if getattr(listener, "prefix", "") != TLSListener.prefix:
        return
    if not isinstance(listener, TLSListener):
        raise UsageError(
            "another backend for tls is registered with Dask; with it nobody can tell workers from clients"
        )
    listener.comm_class = partial(accepted, rights, refused)  # type: ignore[assignment]


def accepted(
    rights: Rights, refused: Callable[[object, str], None], stream: Any, local: str, peer: str, deserialize: bool
) -> TLS:
    if unit(stream.socket.getpeercert()) == WORKER:
        return WorkerConnection(stream, local, peer, rights=rights, refused=refused)
    return TLS(stream, local, peer, deserialize)


def unit(certificate: Mapping[str, Any] | None) -> str | None:
    """Return the organisational unit that a certificate names, as Python's ``ssl`` shows it."""
    names = dict(pair for part in (certificate or {}).get("subject", ()) for pair in part)
    return names.get("organizationalUnitName")


def is_a_workers(certificate: Path) -> bool:
    """Return whether a certificate of this run, in a file, is one of a worker."""
    return WORKER.encode() in ssl.PEM_cert_to_DER_cert(certificate.read_text(encoding="ascii"))


def beware_of_workers(scheduler: str) -> None:
    """Have this process refuse a worker that answers at the scheduler's address."""

    class Connector(TLSConnector):
        async def connect(self, address: str, deserialize: bool = True, **connection_args: Any) -> Any:
            comm = await super().connect(address, deserialize=deserialize, **connection_args)
            if self.prefix + address == scheduler and unit(comm.extra_info.get("peercert")) == WORKER:
                comm.abort()
                raise FatalCommClosedError(f"what answers at {scheduler} is no scheduler: it has the key of a worker")
            return comm

    backend: Any = registry.get_backend("tls")
    backend._connector_class = Connector
