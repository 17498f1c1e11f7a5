"""Where ranks meet: the environments of launchers, and the store of the process group, with stand-ins for both."""

from __future__ import annotations

import itertools
import os
import sys
import types
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from preflight.errors import UsageError
from preflight.monitor.collect.settings import Settings
from preflight.monitor.live import meeting
from preflight.monitor.recording import Recording
from preflight.monitor.trace.run_file import write_run

COMMAND = ["python", "train.py"]
VARIABLES = (
    "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "LOCAL_SIZE", "NODE_RANK", "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_RESTART_COUNT", "SLURM_NTASKS", "SLURM_PROCID", "SLURM_STEP_ID", "SLURM_JOB_ID", "SLURM_RESTART_COUNT",
)  # fmt: skip
Environment = Callable[..., None]


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Environment:
    """Sets what a launcher gives a process that has just begun, in an empty folder; nothing else of the kind is set."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(meeting, "PATIENCE", 0.2)
    monkeypatch.setattr(meeting, "_dist", lambda: None)

    def given(**values: object) -> None:
        for name in VARIABLES:
            monkeypatch.delenv(name, raising=False)
        for name, value in values.items():
            monkeypatch.setenv(name, str(value))
        monkeypatch.setattr(meeting, "_begun", itertools.count(1))
        monkeypatch.setattr(meeting, "_taken", None)

    given()
    return given


def began(output: Path | None = None, *, spare: bool = True) -> Path:
    """What the first rank does."""
    folder = meeting.claim(COMMAND, output, force=False, spare=spare)
    Recording(folder, COMMAND, Settings(folder=str(folder))).begin()
    meeting.announce(folder)
    return folder


@pytest.mark.parametrize(
    ("given", "first", "world"),
    [
        ({}, True, 1),
        ({"RANK": 3, "WORLD_SIZE": 4}, False, 4),
        ({"SLURM_NTASKS": 8, "SLURM_PROCID": 0, "SLURM_JOB_ID": 5}, True, 1),  # plain python in a batch script
        ({"SLURM_NTASKS": 8, "SLURM_PROCID": 3, "SLURM_JOB_ID": 5, "SLURM_STEP_ID": 0}, False, 8),
        ({"WORLD_SIZE": 4, "LOCAL_RANK": 0, "NODE_RANK": 0}, True, 4),  # Lightning, before the process group is there
        ({"WORLD_SIZE": 4, "LOCAL_RANK": 1, "NODE_RANK": 0}, False, 4),
        ({"WORLD_SIZE": 4, "LOCAL_RANK": 0, "NODE_RANK": 1}, False, 4),
        ({"NODE_RANK": 1}, True, 1),
        ({"RANK": "", "WORLD_SIZE": "four"}, True, 1),
    ],
)
def test_what_launchers_say_of_the_ranks(
    given: dict[str, object], first: bool, world: int, environment: Environment
) -> None:
    environment(**given)
    assert (meeting.is_first(), meeting.world()) == (first, world)


LAUNCHERS = {
    "torchrun": {"WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2},
    "deepspeed": {"WORLD_SIZE": 2, "LOCAL_SIZE": 2},
    "srun": {"SLURM_NTASKS": 2, "SLURM_JOB_ID": 5, "SLURM_STEP_ID": 0},
    "srun of torchrun": {"WORLD_SIZE": 4, "LOCAL_WORLD_SIZE": 2, "SLURM_JOB_ID": 5, "SLURM_STEP_ID": 0},
    "torchrun on several machines": {"WORLD_SIZE": 4, "LOCAL_WORLD_SIZE": 2, "TORCHELASTIC_RUN_ID": "a/b"},
}


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_ranks_meet_by_what_their_launcher_gives_and_each_start_has_a_folder(
    launcher: str, environment: Environment
) -> None:
    known, folders = LAUNCHERS[launcher], []
    slurm = "SLURM_JOB_ID" in known
    word = "RANK" if "WORLD_SIZE" in known else "SLURM_PROCID"
    again: list[dict[str, object]] = [{}, {"TORCHELASTIC_RESTART_COUNT": 1}]
    again += [{"SLURM_RESTART_COUNT": 1}] if slurm else []
    for more in again:
        environment(**known, **more, **{word: 0})
        folders += [began(), began()]
        environment(**known, **more, **{word: 1})
        assert not meeting.is_first()
        assert [meeting.join(COMMAND, None), meeting.join(COMMAND, None)] == folders[-2:]
    assert len(set(folders)) == len(folders) == 2 * len(again)


def test_a_folder_that_was_named_and_holds_a_trace_is_refused_or_passed_over(
    environment: Environment, capsys: pytest.CaptureFixture[str]
) -> None:
    known = LAUNCHERS["torchrun"]
    environment(**known, RANK=0)
    assert [began(Path("t")), began(Path("t")), began(Path("t"))] == [Path("t"), Path("t-2"), Path("t-3")]
    assert "t holds a trace already" in capsys.readouterr().err
    environment(**known, RANK=1)
    assert meeting.join(COMMAND, Path("t")) == Path("t-3")
    assert meeting.join(COMMAND, Path("none")) is None
    with pytest.raises(UsageError, match="holds a trace already"):
        began(Path("t"), spare=False)


def test_the_children_of_the_first_rank_find_it(environment: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = began()
    child = {"WORLD_SIZE": 2, "LOCAL_RANK": 1, "NODE_RANK": 0}
    recording = Recording(folder, COMMAND, Settings(folder=str(folder)))
    write_run(folder, msgspec.structs.replace(recording.run, launcher=os.getppid()))
    environment(**child)
    assert meeting.join(["python", "other.py"], None) is None
    environment(**child)
    assert meeting.join(COMMAND, None) == folder
    for machine in ("NODE_RANK", "GROUP_RANK"):
        environment(**{**child, machine: 1})
        monkeypatch.setattr(meeting, "PATIENCE", 1e9)
        assert meeting.join(COMMAND, None) is None, "on another machine nothing is waited for"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_ranks_of_one_parent_find_each_other(environment: Environment) -> None:
    folder = began()  # this process is a child of its parent, as the other rank is
    environment(RANK=1, WORLD_SIZE=2)
    assert meeting.join(COMMAND, None) == folder
    stranger = msgspec.structs.replace(Recording(folder, COMMAND, Settings(folder=str(folder))).run, launcher=1)
    write_run(folder, stranger)
    environment(RANK=1, WORLD_SIZE=2)
    assert meeting.join(COMMAND, None) is None


class Store:
    """What is asked of a store of torch."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}

    def set(self, key: str, value: str) -> None:
        self.values[key] = value.encode()

    def check(self, keys: list[str]) -> bool:
        return all(key in self.values for key in keys)

    def get(self, key: str) -> bytes:
        return self.values[key]


def test_where_the_process_group_is_there_its_store_tells_the_folder(
    environment: Environment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    store, rank = Store(), 0
    group = types.SimpleNamespace(
        get_rank=lambda: rank, get_world_size=lambda: 2,
        distributed_c10d=types.SimpleNamespace(_get_default_store=lambda: store),
    )  # fmt: skip
    monkeypatch.setattr(meeting, "_dist", lambda: group)
    assert meeting.is_first()
    folder = began()  # as of processes that were spawned: no launcher has said anything
    rank = 1
    assert not meeting.is_first()
    assert meeting.world() == 2
    assert meeting.join(COMMAND, None) == tmp_path / folder
    assert meeting.join(COMMAND, None) is None, "the same is not taken twice"
    second = began()
    assert second != folder
    assert meeting.join(COMMAND, Path("elsewhere")) == tmp_path / second
    monkeypatch.setattr(meeting, "PATIENCE", 1e9)
    meeting.announce(None)
    assert meeting.join(COMMAND, None) is None, "the first rank is not recorded either, and nothing is waited for"


def test_a_backend_without_a_store_is_as_no_process_group(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment(**LAUNCHERS["torchrun"])
    group = types.SimpleNamespace(get_rank=lambda: 0, get_world_size=lambda: 2)
    monkeypatch.setattr(meeting, "_dist", lambda: group)
    folder = began()
    environment(**LAUNCHERS["torchrun"])
    monkeypatch.setattr(meeting, "_dist", lambda: group)
    assert meeting.join(COMMAND, None) == folder


@pytest.mark.torch
def test_the_store_of_torch_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    dist = pytest.importorskip("torch").distributed
    assert sys.modules["torch"].distributed is dist
    assert meeting._store() is None
    monkeypatch.setattr(meeting, "world", lambda: 2)
    dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'group'}", rank=0, world_size=1)
    try:
        store = meeting._store()
        assert meeting._told(store) is None
        meeting.announce(tmp_path)
        assert meeting._told(store).endswith(f" {tmp_path}".encode())
    finally:
        dist.destroy_process_group()
