"""On a machine that others use, too, nobody else's code is imported."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

NOBODY = 65_534
DASKS_NAME = "dask-scratch-space"  # where Dask keeps its scratch folders, for all users of a machine
SCRIPT = """
import sys
from scalable import ScalableSession

with ScalableSession.from_yaml("scalable.yaml") as client:
    print(client.submit(len, "abc", tag="model").result())
    import wave  # a module of the standard library that nothing has imported yet
    print([entry for entry in sys.path if "scratch" in entry])
    look = lambda: [entry for entry in __import__("sys").path if "scratch" in entry]
    print(client.submit(look, tag="model").result(), client.submit(look, tag="model", guarded=True).result())
"""
MANIFEST = """
version: 1
project: {{name: shared}}
targets: {{here: {{provider: local, max_workers: 1, processes: {processes}}}}}
components: {{model: {{}}}}
"""


@pytest.mark.parametrize("processes", [pytest.param("true", marks=pytest.mark.journey), "false"])
def test_a_module_planted_where_dask_keeps_scratch_folders_is_not_imported(tmp_path: Path, processes: str) -> None:
    shared, project = tmp_path / "tmp", tmp_path / "project"
    planted = shared / DASKS_NAME / "wave.py"
    for folder in (planted.parent, project):
        folder.mkdir(parents=True)
    planted.write_text("print('planted code runs')\n", encoding="utf-8")
    planted.parent.chmod(0o777)
    if os.geteuid() == 0:
        for path in (planted.parent, planted):
            os.chown(path, NOBODY, NOBODY)
    (project / "scalable.yaml").write_text(MANIFEST.format(processes=processes), encoding="utf-8")
    (project / "script.py").write_text(SCRIPT, encoding="utf-8")

    env = {**os.environ, "TMPDIR": str(shared)}
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=project, env=env, capture_output=True, text=True, timeout=120
    )

    assert (done.returncode, done.stdout.split("\n")) == (0, ["3", "[]", "[] []", ""]), done.stderr
    assert [path.name for path in shared.iterdir()] == [DASKS_NAME], "the run's own folders are gone with it"


UPLOADING = """
from pathlib import Path
from scalable import ScalableSession

Path("extra.py").write_text("def double(number): return 2 * number")
with ScalableSession.from_yaml("scalable.yaml") as client:
    client.submit(len, "abc", tag="model").result()
    client.upload_file("extra.py")
    work = lambda: __import__("extra").double(4)
    print(client.submit(work, tag="model").result(), client.submit(work, tag="model", guarded=True).result())
"""


def test_what_a_client_uploads_is_found_by_plain_and_guarded_tasks(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "scalable.yaml").write_text(MANIFEST.format(processes="true"), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", UPLOADING], cwd=project, env={**os.environ, "PYTHONSAFEPATH": "1"},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "8 8\n"), done.stderr


PLANTED = ("argparse", "typing", "yaml", "rich", "json", "distributed")


@pytest.mark.parametrize("module", ["scalable", "scalable.worker", "scalable.worker.runner"])
def test_a_module_planted_in_the_current_folder_is_not_imported(tmp_path: Path, module: str) -> None:
    for name in PLANTED:
        (tmp_path / f"{name}.py").write_text("print('planted code runs')\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", module, "--help"], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert "planted" not in done.stdout + done.stderr
    assert "usage" in done.stdout.lower() or module.endswith("runner")


ATTACK = """
import sys
import distributed
from distributed.security import Security

address, *_ = sys.argv[1:]
own = Security.temporary()  # certificates of the attacker's making
for at, security in ((address, own), (address.replace("tls://", "tcp://"), None)):
    try:
        client = distributed.Client(at, security=security, timeout=5)
        print("in:", client.run_on_scheduler(lambda: 1))
    except OSError as error:
        print("out")
"""
ATTACKED = """
import subprocess
import sys
from distributed import Client
from scalable import ScalableSession

with ScalableSession.from_yaml("scalable.yaml") as client:
    client.submit(len, "abc", tag="model").result()
    for address in (client.scheduler.address, *client.scheduler_info()["workers"]):
        subprocess.run([sys.executable, "attack.py", address], check=True, stderr=subprocess.DEVNULL)
    with Client(client.scheduler.address, security=client.security, set_as_default=False) as other:
        print(other.submit(len, "abcd", resources={"model": 1}).result())
"""


def test_nobody_without_the_runs_certificate_is_let_in_at_its_ports(tmp_path: Path) -> None:
    (tmp_path / "scalable.yaml").write_text(MANIFEST.format(processes="true"), encoding="utf-8")
    (tmp_path / "attack.py").write_text(ATTACK, encoding="utf-8")
    (tmp_path / "script.py").write_text(ATTACKED, encoding="utf-8")

    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=180)

    assert (done.returncode, done.stdout.split()) == (0, ["out"] * 4 + ["4"]), done.stderr


TOOL = """
import json
from pathlib import Path
from distributed import Client, Security

[run] = Path(".scalable/runs").glob("run-*/run.json")
facts = json.loads(run.read_text())
ca, cert, key = (str(Path(facts["certificates"], f"{name}.pem")) for name in ("ca", "cert", "key"))
security = Security(tls_ca_file=ca, tls_client_cert=cert, tls_client_key=key, require_encryption=True)
with Client(facts["scheduler"], security=security) as client:
    print(client.submit(len, "abcde", resources={"model": 1}).result())
"""
VISITED = """
import json
import subprocess
import sys
from pathlib import Path
from scalable import ScalableSession

with ScalableSession.from_yaml("scalable.yaml") as client:
    subprocess.run([sys.executable, "tool.py"], check=True)
    [run] = Path(".scalable/runs").glob("run-*/run.json")
    keys = Path(json.loads(run.read_text())["certificates"])
    paths = [run, keys, *keys.glob("*.pem")]
    print(*(oct(path.stat().st_mode & 0o777) for path in paths))
print(keys.exists())
"""


def test_another_process_of_the_same_user_gets_in_with_the_certificates_that_the_run_names(tmp_path: Path) -> None:
    (tmp_path / "scalable.yaml").write_text(MANIFEST.format(processes="true"), encoding="utf-8")
    (tmp_path / "tool.py").write_text(TOOL, encoding="utf-8")

    done = subprocess.run([sys.executable, "-c", VISITED], cwd=tmp_path, capture_output=True, text=True, timeout=180)

    modes = ["0o600", "0o700", *["0o600"] * 3]
    assert (done.returncode, done.stdout.split()) == (0, ["5", *modes, "False"]), done.stderr


SPIED_ON = """
import os
import subprocess
from scalable import ScalableSession

with ScalableSession.from_yaml("scalable.yaml") as client:
    client.submit(len, "abc", tag="model").result()
    look = ["find", os.environ["TMPDIR"], ".scalable/runs", "-type", "f", "-readable", "-printf", "%f "]
    ours = subprocess.run(look, capture_output=True, text=True).stdout.split()
    theirs = subprocess.run(look, capture_output=True, text=True, user=65534, group=65534, extra_groups=[]).stdout
    print({"key.pem", "run.json", "journal.jsonl", "model-0.log"} <= set(ours), theirs.split())
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
def test_another_user_reads_neither_the_keys_nor_the_records_of_a_run() -> None:
    with tempfile.TemporaryDirectory() as folder:  # one that others may enter
        shared, project = Path(folder) / "tmp", Path(folder) / "project"
        for path in (Path(folder), shared, project):
            path.mkdir(exist_ok=True)
            path.chmod(0o755)
        (project / "scalable.yaml").write_text(MANIFEST.format(processes="true"), encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-c", SPIED_ON], cwd=project, env={**os.environ, "TMPDIR": str(shared)},
            capture_output=True, text=True, timeout=120,
        )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "True []\n"), done.stderr
