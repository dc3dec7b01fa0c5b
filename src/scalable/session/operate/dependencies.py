"""What a session needs from outside (its store, a tracking server, an object store): whether it answers.

Mostly that is known from using it. What is used too seldom to be known that way is asked now and then, by a thread of
its own that a server which hangs cannot make anybody else wait for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from scalable.errors import ScalableError
from scalable.observe.redact import redact_text
from scalable.store import Fate

if TYPE_CHECKING:
    from scalable.store import Receipt, Store
    from scalable.store.artefacts import Artefacts
    from scalable.store.tracking import Tracker

STORE, TRACKING, OBJECTS = "store", "tracking", "objects"
NOTHING = ("asked", "asked")  # stage and key of an artefact that nobody keeps: looking for it is the smallest question
ASK_EVERY_S = 30.0  # often enough to be told within a minute, seldom enough not to be noticed by a server


class Dependencies:
    """Told by any thread."""

    def __init__(self, ask_every_s: float = ASK_EVERY_S) -> None:
        self.ask_every_s = ask_every_s
        self.trouble: dict[str, str] = {}
        """By dependency in use: why it does not answer, empty if it does."""
        self.behind: Store | None = None
        """Has rows that its database has not taken yet."""

    def found(self, name: str, trouble: str = "") -> None:
        self.trouble[name] = redact_text(trouble)

    def stored(self, receipt: Receipt, store: Store) -> None:
        """Rows were given to the store; it may have to keep them for its database."""
        self.behind = store if receipt.fate is Fate.KEPT else None
        self.found(STORE, receipt.reason if receipt.fate in (Fate.KEPT, Fate.REFUSED) else "")

    @contextmanager
    def asked(self, name: str, question: Callable[[], object]) -> Iterator[None]:
        """Ask a question again and again while within; it does not answer if that raises."""
        over, turn = threading.Event(), threading.Lock()

        def ask() -> None:
            while not over.is_set():
                trouble = ""
                try:
                    question()
                except (ScalableError, OSError) as error:
                    trouble = str(error) or type(error).__name__
                except Exception as error:  # noqa: BLE001 - clients of object stores raise errors of their own
                    trouble = f"{type(error).__name__}: {error}"
                with turn:
                    if not over.is_set():
                        self.found(name, trouble)
                over.wait(self.ask_every_s)

        threading.Thread(target=ask, name=f"scalable-{name}", daemon=True).start()
        try:
            yield
        finally:
            with turn:
                over.set()
            self.trouble.pop(name, None)  # it is not needed any more, so nobody need hear of it

    @contextmanager
    def used(self, tracker: Tracker, artefacts: Artefacts) -> Iterator[None]:
        """Know of a sweep's tracking server and of its object store while within, if it has them."""
        with ExitStack() as stack:
            if tracker.server is not None:
                stack.enter_context(self.asked(TRACKING, tracker.server.asked))
            if "://" in artefacts.url:
                stack.enter_context(self.asked(OBJECTS, lambda: artefacts.load(*NOTHING)))
            yield

    def told(self) -> dict[str, dict[str, Any]]:
        if self.behind is not None and not self.behind.waiting:
            self.behind = None
            self.found(STORE)
        return {name: {"up": not why, "text": why} for name, why in sorted(self.trouble.items())}
