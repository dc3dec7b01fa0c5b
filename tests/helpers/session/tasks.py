"""The manifest's tasks: in the order they need, with what they need, and with the truth about what failed."""

from __future__ import annotations

from typing import Any

from scalable import ScalableSession
from tests.helpers.session.builders import Project

CODE = """
    import json, os, time
    from pathlib import Path

    def value(number=1, plus=0):
        return number + plus

    def add(first, second):
        return first + second

    def told(text):
        raise ValueError(text)

    def flaky(note):
        '''Fails with a lost connection the first time.'''
        again = Path(note).exists()
        Path(note).touch()
        if not again:
            raise ConnectionError("the database went away")
        return "here again"

    def always_flaky():
        raise TimeoutError("no answer")

    def write(name, text="x"):
        Path(name).write_text(text)
        return name

    def folder(name):
        Path(name).mkdir()
        return {"maps": Path(name), "table": write(f"{name}/table.csv")}

    def count(note):
        '''Counts its calls.'''
        with Path(note).open("a") as file:
            file.write("x")
        return Path(note).stat().st_size

    def nothing():
        return None

    def large():
        return 2**2000

    def cannot_be_sent():
        import threading
        return threading.Lock()

    def span(seconds=0.3, **needs):
        began = time.time()
        time.sleep(seconds)
        return [began, time.time()]
"""


def a_session(project: Project, tasks: dict[str, Any], /, **sections: Any) -> ScalableSession:
    """Each task is (function, options) of the code above, on the component demeter."""
    code = project.module(CODE)
    written = {
        name: {"component": "demeter", "run": f"{code}:{function}", **more} for name, (function, more) in tasks.items()
    }
    retry = {"retry": {"times": 1, "delay": "0.1s"}}
    return project.session(tasks=written, **{"policies": retry, **sections})
