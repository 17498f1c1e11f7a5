"""Launchers: what is typed, and what comes back, with stand-ins for the programs of a cluster."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import msgspec
import pytest

from preflight.errors import UsageError
from preflight.investigate.bisect.commits import check_out, commits_between, remove_tree, title
from preflight.investigate.bisect.lattice import Shape, sizes_between
from preflight.investigate.bisect.launchers import Point, filled, launcher, launchers, names_in
from preflight.investigate.bisect.running import run

pytestmark = pytest.mark.skipif(os.name == "nt", reason="needs a POSIX shell")


def test_names_in_braces_are_filled_in_and_other_braces_stay() -> None:
    words = ("a{gpus}b", '{"json": {nodes}}', "{unknown}", "${HOME}")
    point = Point(gpus=16, nodes=2, local=8, hosts=("n1", "n2"))
    assert filled(words, point.words()) == ("a16b", '{"json": 2}', "{unknown}", "${HOME}")
    assert names_in(words) >= {"gpus", "nodes", "unknown"}


def test_launchers_are_the_files_that_are_there() -> None:
    assert set(launchers()) == {"command", "torchrun", "srun", "sbatch", "kubectl"}
    with pytest.raises(UsageError) as caught:
        launcher("sruns")
    assert "srun" in (caught.value.hint or "")


def test_torchrun_starts_one_node_and_srun_many() -> None:
    one = Point(gpus=4, nodes=1, local=4, values={"batch": 3})
    assert launcher("torchrun").launch(("t.py", "{batch}"), one).argv == (
        "torchrun", "--standalone", "--nproc-per-node", "4", "t.py", "3",
    )  # fmt: skip
    two = Point(gpus=16, nodes=2, local=8, hosts=("n1", "n2"))
    with pytest.raises(UsageError, match="torchrun alone starts one node"):
        launcher("torchrun").launch(("t.py",), two)
    argv = launcher("srun").launch(("python", "t.py"), two).argv
    assert {"--nodes=2", "--ntasks=16", "--ntasks-per-node=8", "--nodelist=n1,n2"} <= set(argv)
    assert argv[-2:] == ("python", "t.py")


def _stand_in(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}")
    (folder / name).chmod(0o755)


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    monkeypatch.setenv("PATH", f"{bin_}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    return bin_


def test_sbatch_waits_shows_the_output_and_is_cancelled_at_the_deadline(cluster: Path, tmp_path: Path) -> None:
    _stand_in(
        cluster, "sbatch",
        'for w in "$@"; do case $w in --output=*) out=${w#--output=};; esac; done\n'
        'echo "$@" >> "$CALLS"; echo "ValueError: from the job" > "$out"; case "$*" in *slow*) sleep 600;; esac; exit 3\n',
    )  # fmt: skip
    _stand_in(cluster, "scancel", 'echo "scancel $@" >> "$CALLS"\n')
    point = Point(gpus=16, nodes=2, local=8, state=str(tmp_path), values={"batch": 4}, seconds=60.0)
    log = tmp_path / "log"
    assert run(launcher("sbatch").launch(("job.sh", "{batch}"), point), str(log), 30).code == 3
    assert "ValueError: from the job" in log.read_text()
    calls = (tmp_path / "calls").read_text()
    assert "--wait" in calls
    assert "--nodes=2 --ntasks-per-node=8 job.sh 4" in calls
    assert "--time=1 " in calls
    short = Point(gpus=16, nodes=2, local=8, state=str(tmp_path), seconds=1.5, queue=0.0)
    slow = launcher("sbatch").launch(("slow.sh",), short)
    assert slow.waits == 60 - 1.5 + 60  # Slurm ends the job after a minute; it is ended here where Slurm does not
    assert run(msgspec.structs.replace(slow, waits=0.0), str(log), 1.5).code is None
    last = (tmp_path / "calls").read_text().splitlines()
    assert last[-1].startswith("scancel --name=preflight-bisect-")
    assert last[-1].split("=")[1] in last[-2]


@pytest.mark.parametrize(("state", "code"), [("Complete", 0), ("Succeeded", 0), ("Failed", 1)])
def test_kubectl_applies_waits_shows_logs_and_deletes(
    cluster: Path, tmp_path: Path, state: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFLIGHT_KUBECTL_EVERY", "0.1")
    _stand_in(
        cluster, "kubectl",
        'echo "$@" >> "$CALLS"\ncase $1 in\n'
        "apply) echo job.batch/train;;\n"
        f'get) [ $(grep -c "^get" "$CALLS") -ge 3 ] && echo "SuccessCriteriaMet {state}"; true;;\n'
        "logs) echo from the pod;;\nesac\n",
    )  # fmt: skip
    manifest = tmp_path / "job.yaml"
    manifest.write_text("parallelism: {nodes}\ntemplate: {gpus: 8}\n")
    point = Point(gpus=16, nodes=2, local=8, state=str(tmp_path / "state"))
    log = tmp_path / "log"
    assert run(launcher("kubectl").launch((str(manifest),), point), str(log), 60).code == code
    assert "from the pod" in log.read_text()
    assert (tmp_path / "state" / "manifest-16.yaml").read_text() == "parallelism: 2\ntemplate: {gpus: 8}\n"
    words = [line.split()[0] for line in (tmp_path / "calls").read_text().splitlines()]
    assert words == ["apply", "get", "get", "get", "logs", "delete"]


def test_a_cluster_that_cannot_be_reached_is_not_a_failure_of_the_program(cluster: Path, tmp_path: Path) -> None:
    _stand_in(cluster, "kubectl", "exit 1\n")
    manifest = tmp_path / "job.yaml"
    manifest.write_text("x: 1\n")
    launch = launcher("kubectl").launch((str(manifest),), Point(state=str(tmp_path)))
    assert run(launch, str(tmp_path / "log"), 30).code == 125


def test_sizes_are_whole_nodes_whole_copies_and_divide_the_batch() -> None:
    assert sizes_between(8, 64, Shape()) == [8, 16, 24, 32, 40, 48, 56, 64]
    assert sizes_between(1, 16, Shape()) == [1, 2, 3, 4, 5, 6, 7, 8, 16]
    assert sizes_between(16, 64, Shape(tensor=4, pipeline=4)) == [16, 32, 48, 64]
    # 512 samples in micro-batches of 2: 256 divides by the copies 8, 16, 32, 64 and not by 24, 40, 48, 56.
    assert sizes_between(8, 64, Shape(global_batch=512, micro_batch=2)) == [8, 16, 32, 64]
    assert sizes_between(64, 8, Shape(global_batch=512, micro_batch=2)) == [64, 32, 16, 8]
    with pytest.raises(UsageError) as caught:
        sizes_between(8, 60, Shape())
    assert "whole nodes of 8" in str(caught.value)
    assert "56 or 64" in (caught.value.hint or "")


def _git(folder: Path, *words: str) -> str:
    environment = {
        **os.environ, "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.org", "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@example.org", "GIT_CONFIG_GLOBAL": os.devnull,
    }  # fmt: skip
    return subprocess.run(
        ["git", "-C", str(folder), *words], check=True, capture_output=True, text=True, env=environment
    ).stdout.strip()


def test_commits_are_listed_and_checked_out_beside_the_persons_files(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    repository.mkdir()
    _git(repository, "init", "--quiet")
    for number in range(4):
        (repository / "value").write_text(str(number))
        _git(repository, "add", "value")
        _git(repository, "commit", "--quiet", "-m", f"Set {number}")
    (repository / "value").write_text("not committed")
    chain = commits_between("HEAD~3", "HEAD", str(repository))
    assert [title(commit, str(repository)).split(" ", 1)[1] for commit in chain] == ["Set 0", "Set 1", "Set 2", "Set 3"]
    tree = str(tmp_path / "state" / "tree")
    os.makedirs(os.path.dirname(tree))
    for commit, value in ((chain[2], "2"), (chain[0], "0")):
        check_out(commit, tree, str(repository))
        assert (Path(tree) / "value").read_text() == value
        (Path(tree) / "left-over").write_text("x")
    assert (repository / "value").read_text() == "not committed"
    check_out(chain[1], tree, str(repository))
    assert not (Path(tree) / "left-over").exists()
    remove_tree(tree, str(repository))
    assert not os.path.exists(tree)
    with pytest.raises(UsageError, match="not a commit"):
        commits_between("nowhere", "HEAD", str(repository))
    with pytest.raises(UsageError, match="not an ancestor"):
        commits_between("HEAD", "HEAD~2", str(repository))
