"""The few verbs of the Kubernetes API that workers as pods need, each of which lasts through a bad minute.

A busy or failing server is asked again, as late as it wants; an object whose creation got no answer is looked for, not
made twice; a watch that is cut or too old goes on or begins anew. kr8s finds the server and the credentials and makes
the connections. Its own verbs are not used: they have no time limits, take a refusal for expired credentials (and close
the connections of others to renew them), and know nothing of lost answers.
"""

from __future__ import annotations

import asyncio
import json
import random
import ssl
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from scalable.cluster.kubernetes.answers import (
    Answer,
    ApiError,
    Change,
    Cluster,
    Listing,
    Object,
    WatchEvent,
    Watching,
    busy,
    checked,
    delay,
    refused,
    selected,
)
from scalable.errors import MissingExtraError, UsageError
from scalable.wording import install_hint

try:
    import anyio
    import httpx
    import kr8s
    from kr8s.asyncio import Api
except ImportError as error:
    raise MissingExtraError(f"Kubernetes needs kr8s ({error}); {install_hint('kubernetes')}") from None

__all__ = [
    "LOST", "Api", "ApiError", "Change", "Cluster", "Kube", "Listing", "Object", "WatchEvent", "Watching", "read",
]  # fmt: skip

PATIENCE_S = 60.0  # how long a verb is tried again while the server is busy or does not answer
FIRST_PATIENCE_S = 10.0  # before it ever answered: the address may be wrong
ANSWER_WITHIN_S = 20.0  # for one request; API servers themselves give up after 60 s, and a lost answer costs this much
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.25, 8.0  # between tries, doubled each time
CALM_WITHIN_S = 5.0  # a connection takes milliseconds
LOGIN_WITHIN_S = 60.0  # a program that renews credentials, and may ask a server of its own
LOG_WITHIN_S = 5.0  # a node that is gone does not answer, and others wait
PAGE = 500  # objects in one answer, so that a long list does not hold up the server
WATCH_FOR_S = 300  # then the server ends a watch in order; it is asked for again
QUIET_LOG_S = 300.0  # then a log is asked for again: a dead connection is as quiet as a pod that prints nothing
SILENT_S = 90.0  # servers send a bookmark about every minute, so a quieter connection is dead


@dataclass
class Kube:
    """Verbs on objects of one namespace; all raise ``ApiError``. To be used in one event loop, and closed."""

    cluster: Cluster
    patience: float = PATIENCE_S
    answer_within: float = ANSWER_WITHIN_S
    trouble: str = ""
    """Why the server does not answer, while it does not."""
    answered: bool = False
    """The server has been reached; one that never was is not waited for so long."""
    _api: Api | None = None
    _used: list[Api] = field(default_factory=list)
    _credentials: list[object] = field(default_factory=list)
    """Of the last of them."""
    _connecting: int = 0
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def create(self, resource: str, body: Object, *, dry_run: bool = False) -> Object:
        """Create an object of a name of our own: one that is taken after an unclear answer was made by that try."""
        name = body["metadata"]["name"]
        params = {"dryRun": "All"} if dry_run else {}
        answer = await self.ask("create", "POST", resource, params=params, content=json.dumps(body))
        if answer.status == 409 and answer.again and (made := await self.made(resource, name)) is not None:
            return made or body
        return checked(answer, "create", resource)

    async def made(self, resource: str, name: str) -> Object | None:
        """Get an object that an earlier try made; an empty one if it may be made but not read."""
        try:
            return await self.get(resource, name)
        except ApiError as error:
            if error.status == 403:
                return {}
            raise

    async def get(self, resource: str, name: str, within: float | None = None) -> Object | None:
        """Get an object; nothing if it is not there."""
        answer = await self.ask("get", "GET", resource, name, within=within)
        return None if answer.status == 404 else checked(answer, "get", resource)

    async def find(self, resource: str, *, labels: str = "", fields: str = "") -> tuple[list[Object], str]:
        """Find all that match, and the version from which a watch goes on."""
        objects: list[Object] = []
        params = selected(labels, fields)
        page: dict[str, Any] = {"limit": PAGE}
        while True:
            answer = await self.ask("list", "GET", resource, params={**params, **page})
            if answer.status == 410 and page:  # the rest of the list is too old: all of it at once
                objects, page = [], {}
                continue
            body = checked(answer, "list", resource)
            objects += body.get("items") or []
            about = body.get("metadata") or {}
            if not about.get("continue"):
                return objects, str(about.get("resourceVersion") or "")
            page = {"limit": PAGE, "continue": about["continue"]}

    async def delete(self, resource: str, name: str, *, grace: int | None = None, within: float | None = None) -> bool:
        """Ask for its end, and for that of all it owns; whether it was still there."""
        body: Object = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        if grace is not None:
            body["gracePeriodSeconds"] = grace
        answer = await self.ask("delete", "DELETE", resource, name, content=json.dumps(body), within=within)
        if answer.status == 404:
            return False
        checked(answer, "delete", resource)
        return True

    async def log(self, pod: str, *, lines: int) -> str:
        """Return the end of what a pod has printed; empty if it is not to be had soon."""
        limits = {"params": {"tailLines": lines}, "timeout": min(self.answer_within, LOG_WITHIN_S)}
        with suppress(*LOST):
            async with self.call(await self.open(), "GET", f"pods/{pod}/log", **limits) as response:
                return str(response.text) if response.status_code == 200 else ""
        return ""

    async def follow_log(self, pod: str, since: float | None = None) -> AsyncGenerator[bytes, None]:
        """Yield what a pod prints until it ends, its connection breaks, or the server knows no such log."""
        params = {"follow": "true"}
        if since is not None:
            params["sinceTime"] = datetime.fromtimestamp(since, UTC).isoformat().replace("+00:00", "Z")
        limits = {"params": params, "timeout": httpx.Timeout(self.answer_within, read=QUIET_LOG_S)}
        with suppress(*LOST):
            async with self.streamed(await self.open(), f"pods/{pod}/log", **limits) as response:
                if response.status_code == 200:
                    async for part in response.aiter_bytes():
                        yield part

    async def watch(self, resource: str, *, labels: str = "", fields: str = "") -> AsyncGenerator[WatchEvent, None]:
        """Yield all there is, then each change, for ever; raises only what asking again would repeat."""
        version = ""
        pause = FIRST_PAUSE_S
        while True:
            began = time.monotonic()
            try:
                if not version:
                    objects, version = await self.find(resource, labels=labels, fields=fields)
                    yield Listing(objects, began)
                async for event in self.stream(resource, version, labels, fields):
                    if isinstance(event, Change):
                        pause = FIRST_PAUSE_S
                        version = str(event.object.get("metadata", {}).get("resourceVersion") or version)
                        if event.kind == "BOOKMARK":
                            continue
                    yield event
            except ApiError as error:
                if error.status == 410:
                    version = ""
                elif not error.unclear and error.status != 401:
                    raise
            if time.monotonic() - began < pause:  # one that ends at once is not asked for all the time
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))
                pause = min(pause * 2, LONGEST_PAUSE_S)

    async def stream(
        self, resource: str, version: str, labels: str, fields: str
    ) -> AsyncGenerator[Watching | Change, None]:
        """Watch until the server ends it or the connection breaks; its own errors are raised."""
        params = {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": version}
        params |= {"timeoutSeconds": str(WATCH_FOR_S), **selected(labels, fields)}
        limits = {"params": params, "timeout": httpx.Timeout(self.answer_within, read=SILENT_S)}
        with suppress(*LOST):
            api = await self.open()
            async with self.streamed(api, resource, **limits) as response:
                if response.status_code != 200:
                    await response.aread()
                    if response.status_code == 401:
                        self.renew(api)
                    checked(Answer(response.status_code, read(response)), "watch", resource)
                yield Watching()
                async for line in response.aiter_lines():
                    try:
                        event = json.loads(line)
                    except ValueError:  # the connection was cut within a line
                        return
                    if event.get("type") == "ERROR":
                        status = event.get("object") or {}
                        raise refused(int(status.get("code") or 500), status, "watch", resource)
                    yield Change(str(event.get("type")), event.get("object") or {})

    async def close(self) -> None:
        for api in self._used:
            if api._session is not None:  # kr8s has no other way to close its connections
                with suppress(*LOST):
                    await api._session.aclose()
        self._used.clear()
        self._credentials.clear()
        self._api = None

    # One request, as often as it takes

    async def ask(
        self, verb: str, method: str, resource: str, name: str = "", *, within: float | None = None, **more: Any
    ) -> Answer:
        """Ask until there is a definite answer; raises ``ApiError`` if there is none in time."""
        patience = self.patience if self.answered else min(self.patience, FIRST_PATIENCE_S)
        deadline = time.monotonic() + (patience if within is None else within)
        pause, again, renewed = FIRST_PAUSE_S, False, False
        while True:
            wait = pause * random.uniform(0.5, 1.0)
            try:
                api = await self.open()
                answer, wanted = await self.once(api, method, f"{resource}/{name}" if name else resource, again, more)
            except LOST as trouble:
                problem = ApiError(0, type(trouble).__name__, verb, resource, f"no answer: {words_of(trouble)}")
                again, self.trouble = True, str(problem)
            else:
                self.answered, self.trouble = True, ""
                if answer.status == 401:
                    if not renewed:
                        renewed = True
                        self.renew(api)
                        continue
                    self.trouble = f"{refused(401, answer.body, verb, resource)}; log in again"
                if not busy(answer, method):
                    return answer
                problem = refused(answer.status, answer.body, verb, resource)
                again = again or answer.status != 429  # which says that nothing was done
                wait = max(wait, wanted)
            if time.monotonic() + wait > deadline:
                raise problem
            await asyncio.sleep(wait)
            pause = min(pause * 2, LONGEST_PAUSE_S)

    async def once(self, api: Api, method: str, url: str, again: bool, more: Any) -> tuple[Answer, float]:
        """Ask once; returns the answer and for how long the server wants not to be asked again."""
        self._connecting += 1
        try:
            async with asyncio.timeout(self.answer_within), self.call(api, method, url, **more) as response:
                return Answer(response.status_code, read(response), again), delay(response.headers)
        finally:
            self._connecting -= 1

    def call(self, api: Api, method: str, url: str, **more: Any) -> AbstractAsyncContextManager[httpx.Response]:
        namespace = None if url.startswith("nodes") else self.cluster.namespace
        more = {"timeout": self.answer_within, **more}
        return api.call_api(method, namespace=namespace, url=url, raise_for_status=False, **more)

    @asynccontextmanager
    async def streamed(self, api: Api, url: str, **limits: Any) -> AsyncGenerator[httpx.Response, None]:
        """Read an answer as it comes. While it is being connected it must not be cancelled, see ``calm``."""
        self._connecting += 1
        connecting = 1
        try:
            async with self.call(api, "GET", url, stream=True, **limits) as response:
                self._connecting, connecting = self._connecting - 1, 0
                yield response
        finally:
            self._connecting -= connecting

    async def calm(self) -> None:
        """Wait until tasks can be cancelled: httpx leaves a socket open that it was about to encrypt."""
        deadline = time.monotonic() + CALM_WITHIN_S
        while self._connecting and time.monotonic() < deadline:
            await asyncio.sleep(0.01)

    async def open(self) -> Api:
        """Get kr8s with credentials. Its factory would share connections between event loops, which end."""
        async with self._opening:
            if self._api is None:
                where = self.cluster
                api = Api(
                    bypass_factory=True, url=where.url, kubeconfig=where.kubeconfig, serviceaccount=None,
                    namespace=where.namespace, context=where.context,
                )  # fmt: skip
                began = time.time()
                try:
                    with anyio.fail_after(LOGIN_WITHIN_S):  # asyncio's would wait for the program
                        await api.auth
                        present = credentials(api)
                        if present != self._credentials:  # the same again need no connections of their own
                            await api._create_session()
                except (ValueError, OSError, RuntimeError, *DAMAGED) as error:
                    why = unread(error)
                    if self.answered:  # with credentials that were good; what renews them may work a moment later
                        raise ConnectionError(f"the credentials could not be renewed: {why}") from None
                    raise UsageError(unknown(where, why)) from None
                finally:
                    remove_copies(api, began)
                if present != self._credentials:
                    self._used.append(api)
                    self._credentials = present
                self._api = self._used[-1]
            return self._api

    def renew(self, api: Api) -> None:
        """Have credentials read anew; connections made with the old ones are left to those who use them."""
        if self._api is api:
            self._api = None


LOST = (httpx.HTTPError, httpx.StreamError, kr8s.APITimeoutError, TimeoutError, OSError, ssl.SSLError)
"""What a connection that fails leads to."""


DAMAGED = (LookupError, TypeError, AttributeError, yaml.YAMLError)
"""What kr8s raises for a kubeconfig that is empty or torn, as it is while another program writes it."""


def unread(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"not within {LOGIN_WITHIN_S:g} s"
    return f"the kubeconfig cannot be read ({words_of(error)})" if isinstance(error, DAMAGED) else words_of(error)


def credentials(api: Api) -> list[object]:
    """Return the server and what it is asked with."""
    files = (api.auth.client_key_file, api.auth.client_cert_file, api.auth.server_ca_file)
    return [api.auth.server, api.auth.token, *(Path(str(file)).read_bytes() if file else b"" for file in files)]


def remove_copies(api: Api, began: float) -> None:
    """Remove the temporary files into which kr8s writes keys of a kubeconfig, and which it leaves there."""
    for file in (api.auth.client_key_file, api.auth.client_cert_file, api.auth.server_ca_file):
        path = Path(str(file)) if file else None
        if path is not None and path.parent == Path(tempfile.gettempdir()) and path.name.startswith("tmp"):
            with suppress(OSError):
                if path.stat().st_ctime >= began - 1.0:
                    path.unlink()


def unknown(where: Cluster, why: str) -> str:
    named = f"kubeconfig {where.kubeconfig}" if where.kubeconfig else "$KUBECONFIG or ~/.kube/config"
    return (
        f"no Kubernetes cluster is known here: {why}; write kubeconfig: FILE (and context: NAME) in the target, "
        f"set KUBECONFIG, or run inside the cluster; looked at {named}"
    )


def read(response: httpx.Response) -> Object:
    """Read an object, or what a server that is no API server printed."""
    try:
        body = response.json()
    except ValueError:
        body = None
    return body if isinstance(body, dict) else {"message": response.text.strip()[:500]}


def words_of(trouble: BaseException) -> str:
    return str(trouble) or type(trouble).__name__
