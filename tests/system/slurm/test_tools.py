"""The tools the other tests stand on do what they say: a private Slurm behaves as Slurm, and Apptainer as Apptainer."""

from __future__ import annotations

import os
import random
import re
import shlex
import shutil
import signal
import string
import subprocess
import sys
from pathlib import Path

import pytest

import scalable
from tests.helpers.paths import ROOT
from tests.tools import processes, system
from tests.tools.apptainer import environment_folders
from tests.tools.apptainer.image import MARKER
from tests.tools.errors import ToolError, ToolMissingError
from tests.tools.slurm import MemoryRule, PrivateSlurm, Settings, running, why_no_cgroup
from tests.tools.slurm.client import wait_until

HUNGRY = f"{sys.executable} -c 'import time; hoard = bytearray(400_000_000); time.sleep(60)'"
WHERE = f"import os, ssl, distributed, scalable; print(scalable.__file__, os.path.exists('/etc/{MARKER}'))"
COMMAND = [sys.executable, "-m", "tests.tools.slurm"]


def test_a_job_runs_on_a_node_and_its_output_is_there(slurm: PrivateSlurm, tmp_path: Path) -> None:
    number = slurm.submit("echo on $SLURMD_NODENAME with $SLURM_CPUS_PER_TASK", "-c3", f"--output={tmp_path}/out")
    job = slurm.wait(number)
    assert (job.state, job.exit_code) == ("COMPLETED", 0)
    assert (tmp_path / "out").read_text() == f"on {job.node} with 3\n"


def test_slurms_commands_of_this_process_talk_to_the_private_cluster(slurm: PrivateSlurm) -> None:
    nodes = subprocess.run(["sinfo", "-h", "-N", "-o", "%N"], capture_output=True, text=True, check=True)
    assert nodes.stdout.split() == ["n1", "n2", "n3", "n4"]


def test_a_failed_job_keeps_its_name_and_exit_status(slurm: PrivateSlurm) -> None:
    job = slurm.wait(slurm.submit("exit 3", "--job-name=naïve JobState=x", "--output=/dev/null"))
    assert (job.name, job.state, job.exit_code) == ("naïve JobState=x", "FAILED", 3)


def test_a_job_that_no_node_can_hold_is_refused_with_slurms_reason(slurm: PrivateSlurm) -> None:
    with pytest.raises(ToolError, match="Requested node configuration is not available"):
        slurm.submit("true", "--mem=1000G")


@pytest.mark.long  # workers in twenty jobs do so in test_losses.py
def test_twenty_jobs_share_four_nodes(slurm: PrivateSlurm) -> None:
    numbers = [slurm.submit("sleep 1", "--output=/dev/null") for _ in range(20)]
    ended = [slurm.wait(number) for number in numbers]
    assert {job.state for job in ended} == {"COMPLETED"}
    assert {job.node for job in ended} == {"n1", "n2", "n3", "n4"}


def test_a_job_over_its_memory_is_killed(slurm: PrivateSlurm, tmp_path: Path) -> None:
    job = slurm.wait(slurm.submit(HUNGRY, "--mem=100M", f"--output={tmp_path}/out"))
    assert (job.state, job.exit_signal) == ("FAILED", signal.SIGKILL)
    assert "exceeded memory limit" in (tmp_path / "out").read_text()


@pytest.mark.long  # a worker's job is killed so in test_losses.py
def test_the_kernel_kills_a_job_over_its_memory_where_it_may(tmp_path: Path) -> None:
    prefix = "".join(random.choices(string.ascii_lowercase, k=8))  # the kernel's tree is shared with other clusters
    settings = Settings(nodes=1, memory=MemoryRule.CGROUP, prefix=prefix)
    if why_no_cgroup():
        with pytest.raises(ToolMissingError, match="use linux"):
            PrivateSlurm(tmp_path, settings).start()
        return
    with running(tmp_path, settings) as slurm:
        job = slurm.wait(slurm.submit(HUNGRY, "--mem=100M", "--output=/dev/null"))
    assert (job.state, job.exit_signal) == ("OUT_OF_MEMORY", 125)
    assert not list(Path("/sys/fs/cgroup").glob(f"*/slurm_{prefix}*"))


@pytest.mark.long  # Slurm looks at limits every 30 s
def test_a_job_can_be_made_to_reach_its_walltime(slurm: PrivateSlurm) -> None:
    number = slurm.submit("sleep 300", "--output=/dev/null", "--time=10")
    slurm.wait(number, "RUNNING")
    slurm.expire(number)
    assert slurm.wait(number, timeout_s=90).state == "TIMEOUT"


@pytest.mark.long  # Slurm notices a lost node after 11 s and lets the job start again 5 s later
def test_a_crashed_node_takes_its_job_down_and_the_job_runs_again(fresh_slurm: PrivateSlurm, tmp_path: Path) -> None:
    number = fresh_slurm.submit(f"env -i sleep 300 & echo $! >> {tmp_path}/pids; wait", "--output=/dev/null")
    node = fresh_slurm.wait(number, "RUNNING").node
    (first,) = pids(tmp_path / "pids", 1)
    fresh_slurm.crash(node)
    assert processes.look(first) is None
    wait_until(lambda: fresh_slurm.nodes()[node].startswith("down"), lambda: f"{fresh_slurm.nodes()}", 60)
    wait_until(lambda: fresh_slurm.job(number).state == "RUNNING", lambda: f"{fresh_slurm.job(number)}", 60)
    assert fresh_slurm.job(number).node != node
    assert processes.look(pids(tmp_path / "pids", 2)[1])
    fresh_slurm.restore(node)
    assert fresh_slurm.nodes()[node] == "idle"


def test_a_node_that_is_cut_off_loses_no_process(fresh_slurm: PrivateSlurm, tmp_path: Path) -> None:
    number = fresh_slurm.submit(f"echo $$ >> {tmp_path}/pids; sleep 300", "--output=/dev/null", "--no-requeue")
    node = fresh_slurm.wait(number, "RUNNING").node
    (script,) = pids(tmp_path / "pids", 1)
    fresh_slurm.crash(node, keep_jobs=True)
    fresh_slurm.mark_down(node)
    assert fresh_slurm.wait(number).state == "NODE_FAIL"
    assert processes.look(script)


def test_a_reset_cancels_jobs_and_brings_nodes_back(fresh_slurm: PrivateSlurm) -> None:
    for _ in range(20):
        fresh_slurm.submit("sleep 300", "--output=/dev/null")
    fresh_slurm.crash("n2")
    fresh_slurm.mark_down("n3")
    fresh_slurm.run("scontrol", "update", "nodename=n4", "state=drain", "reason=test")
    fresh_slurm.reset()
    assert set(fresh_slurm.nodes().values()) == {"idle"}
    assert {job.state for job in fresh_slurm.jobs()} == {"CANCELLED"}
    assert not fresh_slurm.living()


@pytest.mark.parametrize("fresh_slurm", [Settings(nodes=1, cpus=2)], indirect=True)
def test_stopping_leaves_no_process_and_a_stopped_cluster_starts_again(
    fresh_slurm: PrivateSlurm, tmp_path: Path
) -> None:
    escaping = f"setsid env -i sleep 300 & echo $! >> {tmp_path}/pids; trap '' TERM; sleep 300"
    fresh_slurm.wait(fresh_slurm.submit(escaping, "--output=/dev/null"), "RUNNING")
    (sleeper,) = pids(tmp_path / "pids", 1)
    fresh_slurm.stop()
    assert fresh_slurm.leftovers() == []
    assert processes.look(sleeper) is None
    fresh_slurm.start()
    assert fresh_slurm.wait(fresh_slurm.submit("true", "--output=/dev/null")).state == "COMPLETED"


def test_a_killed_owner_leaves_no_cluster_behind(tmp_path: Path) -> None:
    script = f"""
import time
from pathlib import Path
from tests.tools.slurm import Settings, running
with running(Path({str(tmp_path)!r}), Settings(nodes=1)) as slurm:
    print("ready", flush=True)
    time.sleep(300)
"""
    with subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "ready\n"
        slurm = PrivateSlurm.existing(tmp_path)
        assert slurm.leftovers()
        owner.kill()
    wait_until(lambda: not slurm.leftovers(), lambda: f"{slurm.leftovers()} to be gone", 30)


def test_a_folder_with_a_long_name_holds_a_cluster(tmp_path: Path) -> None:
    folder = tmp_path / ("a-long-name-" * 12)
    with running(folder, Settings(nodes=1)) as slurm:
        assert slurm.wait(slurm.submit("true", "--output=/dev/null")).state == "COMPLETED"
        assert slurm.paths.runtime.exists()
    assert not slurm.paths.runtime.exists()


@pytest.mark.parametrize("name", ["with space", "with,comma", "50%"])
def test_a_folder_slurm_cannot_use_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ToolError, match="Slurm cannot use the path"):
        PrivateSlurm(tmp_path / name)


def test_a_running_cluster_does_not_change_its_settings(slurm: PrivateSlurm) -> None:
    slurm.start()
    with pytest.raises(ToolError, match="stop it first"):
        PrivateSlurm(slurm.paths.folder, Settings(nodes=1)).start()
    with pytest.raises(ToolError, match="there are n1, n2, n3, n4"):
        slurm.crash("n5")


def test_the_command_line_starts_crashes_restores_and_stops(tmp_path: Path) -> None:
    folder = tmp_path / "cluster"

    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*COMMAND, *arguments], cwd=ROOT, text=True, capture_output=True, timeout=120)

    printed = call("up", str(folder), "--nodes", "2", "--slurmd-timeout", "5").stdout
    assert printed == f"export SLURM_CONF={folder}/slurm.conf\n"
    try:
        own = PrivateSlurm.existing(folder)
        assert own.settings == Settings(nodes=2, slurmd_timeout_s=5)
        assert call("crash", str(folder), "n9").stderr == "slurm: there is no node 'n9'; there are n1, n2\n"
        assert call("crash", str(folder), "n1").returncode == 0
        assert call("restore", str(folder), "n1").returncode == 0
        assert own.nodes() == {"n1": "idle", "n2": "idle"}
    finally:
        assert call("down", str(folder), "--purge").returncode == 0
    assert not folder.exists()
    assert "there is no cluster" in call("down", str(folder)).stderr


def test_the_commands_of_the_page_about_it_work(slurm: PrivateSlurm, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs/how-to/test-on-slurm.md").read_text(encoding="utf-8")
    commands = re.findall(r"^\$ (.*)$", page, flags=re.MULTILINE)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("SLURM_CONF")
    script = "\n".join(["set -eux", *commands, "test ! -e $folder"])
    done = subprocess.run(["bash", "-c", script], cwd=ROOT, text=True, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "hello from n1\n" in done.stdout


def test_what_is_not_installed_is_named_with_the_command_that_installs_it() -> None:
    with pytest.raises(ToolMissingError, match="sudo apt-get install --no-install-recommends some-package"):
        system.require({"sh": "bash", "no-such-program": "some-package"})


def test_no_service_starts_while_packages_are_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = tmp_path / "policy-rc.d"
    monkeypatch.setattr(system, "POLICY", policy)
    with system.services_stay_down():
        assert subprocess.run([policy, "slurmctld", "start"]).returncode == 101
    assert not policy.exists()
    policy.write_text("an administrator's own")
    with system.services_stay_down():
        assert policy.read_text() == "an administrator's own"
    assert policy.exists()


def test_python_runs_in_the_image_from_the_mounted_environment(apptainer: Path, sif: Path) -> None:
    assert shutil.which("apptainer") == str(apptainer)
    done = subprocess.run([*in_image(sif), "-c", WHERE], capture_output=True, text=True, timeout=120)
    assert done.stdout == f"{scalable.__file__} True\n", done.stderr
    assert not Path("/etc", MARKER).exists()


def test_a_job_runs_python_in_the_image(slurm: PrivateSlurm, apptainer: Path, sif: Path, tmp_path: Path) -> None:
    command = shlex.join([*in_image(sif), "-c", WHERE])
    job = slurm.wait(slurm.submit(command, f"--output={tmp_path}/out", f"--error={tmp_path}/err"))
    assert job.state == "COMPLETED", (tmp_path / "err").read_text()
    assert (tmp_path / "out").read_text() == f"{scalable.__file__} True\n"


def in_image(sif: Path) -> list[str]:
    """The command that runs this Python inside the image, where nothing of the machine is but its environment."""
    folders = ",".join(str(folder) for folder in environment_folders())
    return ["apptainer", "exec", "--containall", "--bind", folders, str(sif), sys.executable]


def pids(file: Path, count: int) -> list[int]:
    """The process ids that a job has written, as soon as there are so many."""
    wait_until(lambda: file.exists() and len(file.read_text().split()) >= count, lambda: f"{count} lines in {file}", 30)
    return [int(line) for line in file.read_text().split()]
