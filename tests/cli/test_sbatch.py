"""``preflight sbatch``, the prolog and the epilog, on a Slurm of one node that the tests start."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.command_line import run

ROOT = Path(__file__).resolve().parents[2]
FAILS = """
print("step 0 loss 1.0", flush=True)
raise FileNotFoundError(2, "No such file or directory", "shards/train-00007.tar")
"""
TRAINS = """
import torch

model = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    model(torch.randn(4, 8)).pow(2).mean().backward()
    optimizer.step()
"""
CONF = """
ClusterName=one
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
CryptoType=crypto/munge
AuthInfo=socket={at}/munge/socket
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
StateSaveLocation={at}/state
SlurmdSpoolDir={at}/spool
SlurmctldPidFile={at}/slurmctld.pid
SlurmdPidFile={at}/slurmd.pid
SlurmctldLogFile={at}/slurmctld.log
SlurmdLogFile={at}/slurmd.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SchedulerParameters=sched_interval=1,batch_sched_delay=0
ReturnToService=2
MpiDefault=none
Prolog={at}/prolog
Epilog={at}/epilog
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES State=UP
"""
PATIENCE = 120.0


def _free_ports() -> tuple[int, int]:
    held = [socket.socket() for _ in range(2)]
    for one in held:
        one.bind(("127.0.0.1", 0))
    ports = tuple(one.getsockname()[1] for one in held)
    for one in held:
        one.close()
    return ports[0], ports[1]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A Slurm of one node with the prolog and the epilog of the examples; the folder that it lives in."""
    if any(shutil.which(name) is None for name in ("munged", "slurmctld", "slurmd", "sbatch")):
        pytest.skip("Slurm is not installed")
    at = tmp_path_factory.mktemp("slurm")
    for name in ("state", "spool", "munge", "nodes"):
        (at / name).mkdir()
    (at / "munge").chmod(0o700)
    (at / "munge" / "key").write_bytes(os.urandom(1024))
    (at / "munge" / "key").chmod(0o600)
    (at / "preflight").write_text(f'#!/bin/sh\nexec {sys.executable} -m preflight "$@"\n')
    for name in ("prolog", "epilog"):
        script = (ROOT / "examples" / "slurm" / f"{name}.sh").read_text()
        given = f"#!/bin/sh\nexport PREFLIGHT={at}/preflight PREFLIGHT_NODES={at}/nodes PREFLIGHT_DEADLINE=90\n"
        (at / name).write_text(given + f"export PYTHONPATH={ROOT}/src\n" + script)
    for name in ("preflight", "prolog", "epilog"):
        (at / name).chmod(0o755)
    host, user = socket.gethostname().partition(".")[0], subprocess.check_output(["id", "-un"], text=True).strip()
    conf = at / "slurm.conf"
    conf.write_text(CONF.format(at=at, host=host, user=user, ports=_free_ports(), cpus=os.cpu_count()))
    munge = [f"--{name}={at}/munge/{name}" for name in ("socket", "key-file", "log-file", "pid-file", "seed-file")]
    munge[1] = f"--key-file={at}/munge/key"
    daemons = [["munged", "--foreground", "--force", *munge], ["slurmctld", "-D", "-c"], ["slurmd", "-D", "-c"]]
    environment = {**os.environ, "SLURM_CONF": str(conf)}
    with (at / "daemons.log").open("wb") as log:
        running = [subprocess.Popen(one, env=environment, stdout=log, stderr=log) for one in daemons[:1]]
        _wait(lambda: (at / "munge" / "socket").exists())
        running += [subprocess.Popen(one, env=environment, stdout=log, stderr=log) for one in daemons[1:]]
        try:
            _wait(lambda: "idle" in _slurm(conf, "sinfo", "--noheader"), at)
            yield at
        finally:
            for one in reversed(running):
                one.terminate()
            for one in running:
                try:
                    one.wait(20)
                except subprocess.TimeoutExpired:
                    one.kill()


def _slurm(conf: Path, *words: str) -> str:
    return subprocess.run(
        words, env={**os.environ, "SLURM_CONF": str(conf)}, capture_output=True, text=True, check=False
    ).stdout


def _wait(what: object, at: Path | None = None) -> None:
    assert callable(what)
    until = time.monotonic() + PATIENCE
    while not what():
        if time.monotonic() > until:
            logs = "\n".join(log.read_text(errors="replace")[-2000:] for log in (at.glob("*.log") if at else ()))
            pytest.fail(f"it did not come about in {PATIENCE:g} s\n{logs}")
        time.sleep(0.2)


@pytest.fixture
def submitted(cluster: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to submit from, with the cluster's configuration in the environment."""
    monkeypatch.setenv("SLURM_CONF", str(cluster / "slurm.conf"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slurm
def test_a_job_that_fails_is_looked_at(cluster: Path, submitted: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (submitted / "train.py").write_text(FAILS)
    job = f"#!/bin/bash\n#SBATCH --job-name=fit\n#SBATCH --output=%x-%j.log\nsrun --label {sys.executable} train.py\n"
    (submitted / "job.sh").write_text(job)
    status = run(*["sbatch", "job.sh"])
    out, err = capfd.readouterr()
    assert status == 0
    number = out.removeprefix("Submitted batch job ").strip()
    assert number.isdigit()
    assert "looks at it if it fails" in err
    report = submitted / ".preflight" / "slurm" / f"{number}.txt"
    _wait(lambda: report.exists() and "No such file or directory" in report.read_text(), cluster)
    _wait(lambda: not _slurm(cluster / "slurm.conf", "squeue", "--noheader"), cluster)
    # The job that found the cause has not failed, so nobody looks at it in turn.
    states = _slurm(cluster / "slurm.conf", "scontrol", "--oneliner", "show", "job", str(int(number) + 1))
    assert "JobName=fit-investigate" in states
    assert "JobState=COMPLETED" in states
    told = report.read_text()
    assert "NO-GO" in told
    assert "shards/train-00007.tar" in told
    assert (submitted / ".preflight" / "slurm" / number / "scontrol.txt").read_text().startswith(f"JobId={number}")
    # The prolog looked at the node, before the job and before the one that investigated it.
    _wait(lambda: any(path.name.startswith(f"{number}-") for path in (cluster / "nodes").glob("*.json")), cluster)


@pytest.mark.slurm
def test_the_epilog_reads_the_logs_of_a_job_that_fails(cluster: Path, submitted: Path) -> None:
    (submitted / "train.py").write_text(FAILS)
    (submitted / "job.sh").write_text(f"#!/bin/bash\n{sys.executable} train.py\n")
    done = subprocess.run(["sbatch", "--parsable", "job.sh"], capture_output=True, text=True, check=True)
    report = submitted / ".preflight" / "slurm" / f"{done.stdout.strip()}.txt"
    _wait(lambda: report.exists() and report.stat().st_size, cluster)
    told = "".join(report.read_text().split())  # a long path may be broken over two lines
    assert told.startswith("NO-GO")
    assert "Afileisnotthere" in told
    assert "theprocessendedwithanerror" in told  # which scontrol says
    assert told.partition("Afileisnotthere")[0].count(".out") == 1  # both streams go to one file, which is read once
    # An epilog that ended badly would have drained the node.
    _wait(lambda: "idle" in _slurm(cluster / "slurm.conf", "sinfo", "--noheader"), cluster)


@pytest.mark.slurm
def test_nothing_is_left_of_a_job_that_succeeds(
    cluster: Path, submitted: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (submitted / "train.py").write_text("print('done')\n")
    (submitted / "job.sh").write_text(f"#!/bin/bash\n{sys.executable} train.py\n")
    status = run(*["sbatch", "--no-investigate", "--parsable", "job.sh"])
    out, _ = capfd.readouterr()
    assert status == 0
    number = out.strip()
    _wait(lambda: "JobState=COMPLETED" in _slurm(cluster / "slurm.conf", "scontrol", "show", "job", number), cluster)
    assert not (submitted / ".preflight" / "slurm" / f"{number}.txt").exists()


def test_a_job_that_is_no_go_is_not_submitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(TRAINS)
    (tmp_path / "job.sh").write_text(
        "#!/bin/bash\n#SBATCH --nodes=4\ntorchrun --nnodes 4 --nproc-per-node 1 train.py\n"
    )
    status = run(*["sbatch", "job.sh"])
    out, err = capfd.readouterr()
    assert status == 1
    assert out == ""
    assert "JOB001" in err
    assert "not submitted" in err
    assert "(preflight check job.sh --verbose says why)" in " ".join(err.split())


def test_what_would_be_submitted_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(TRAINS)
    job = "#!/bin/bash\n#SBATCH -J fit\n#SBATCH -A physics\nsrun --output=logs/%j-%t.out python train.py\n"
    (tmp_path / "job.sh").write_text(job)
    status = run(*["sbatch", "--show", "--array=1-3", "-p", "gpu", "job.sh", "x y"])
    out, _ = capfd.readouterr()
    assert status == 0
    first, second = out.splitlines()
    assert first == "sbatch --array=1-3 -p gpu job.sh 'x y'"
    assert "--account=physics --partition=gpu" in second
    assert "--dependency=afternotok:JOB" in second
    assert "slurm-JOB_*.out logs/*-*.out" in second


def test_letters_behind_a_short_option_are_no_options_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(TRAINS)
    (tmp_path / "job.sh").write_text("#!/bin/bash\npython train.py\n")
    assert run("sbatch", "--show", "-Jhello", "-Aphysics", "--nice", "job.sh") == 0
    out = capfd.readouterr().out
    assert out.splitlines()[0] == "sbatch -Jhello -Aphysics --nice job.sh"
    assert "--job-name=hello-investigate" in out
    assert "--account=physics" in out


SBATCH = """#!/bin/sh
echo "$@" >> {log}
case "$*" in
  *--wrap*) echo "8;two"; exit 0 ;;
esac
echo "Submitted batch job 7 on cluster two"
exit 3
"""


def test_a_job_that_is_waited_for_is_looked_at_on_its_own_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sbatch").write_text(SBATCH.format(log=tmp_path / "log"))
    (tmp_path / "bin" / "sbatch").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    (tmp_path / "job.sh").write_text("#!/bin/bash\nsrun --output=logs/%j-%t.out hostname\n")
    assert run("sbatch", "--wait", "-M", "one,two", "job.sh") == 3  # the job's own exit code
    first, second = (tmp_path / "log").read_text().splitlines()
    assert first == "--wait -M one,two job.sh"
    assert "--dependency=afternotok:7" in second
    assert "--clusters=two" in second
    assert "one,two" not in second
    assert "job 8 looks at it" in capfd.readouterr().err
    # What the second job runs takes only the files that are there.
    (tmp_path / "slurm-7.out").write_text("OSError: [Errno 28] No space left on device\n")
    line = second.partition("--wrap ")[2].replace(f"{sys.executable} -m preflight", "echo told")
    told = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=True).stdout
    assert told == "told investigate slurm-7.out .preflight/slurm/7\n"
    for code, ends in ((0, 0), (1, 0), (3, 0), (2, 1)):
        line = second.partition("--wrap ")[2].replace(f"{sys.executable} -m preflight", f"sh -c 'exit {code}'")
        assert subprocess.run(["sh", "-c", line], check=False).returncode == ends


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--nodes", "2"], "no job script is named"),
        (["nowhere.sh"], "nowhere.sh: no such file"),
        (["--wrap", "python train.py"], "a job with --wrap has no script"),
    ],
)
def test_what_is_no_job_is_refused(words: list[str], said: str, capfd: pytest.CaptureFixture[str]) -> None:
    status = run(*["sbatch", *words])
    _, err = capfd.readouterr()
    assert status == 2
    assert said in err


def test_without_slurm_the_command_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "job.sh").write_text("#!/bin/bash\nhostname\n")
    status = run(*["sbatch", "job.sh"])
    _, err = capfd.readouterr()
    assert status == 2
    assert "not checked: job.sh starts no Python program" in err
    assert "there is no sbatch on this machine" in err
