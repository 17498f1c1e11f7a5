"""Reading on several cores, in parts, or on a cluster gives what reading at once gives."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from preflight.catalog.signature_files import load_signatures
from preflight.errors import UsageError
from preflight.source.logs import cluster, pool, ranges, read_logs
from preflight.source.logs.joining import join
from preflight.source.logs.one_file import read_one
from preflight.source.logs.opening import sources
from preflight.source.logs.read import wanted
from preflight.source.logs.rules import packed, rules_of

OOM = "[rank{rank}]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {step}.00 GiB.\n"


def _lines(count: int, rank: int) -> str:
    rows = []
    for step in range(count):
        rows.append(
            f"2024-01-01 12:{step // 60 % 60:02d}:{step % 60:02d},000 INFO step: {step} loss: 2.{step} world_size=4\n"
        )
        if step % 7 == 0:
            rows.append(OOM.format(rank=rank, step=step % 5 + 1))
        if step % 50 == 10:
            rows.append(
                f'[rank{rank}]: Traceback (most recent call last):\n[rank{rank}]:   File "a.py", line {step + 1}, in f\n'
            )
            rows.append(f"[rank{rank}]: ValueError: bad {step}\n")
    return "".join(rows)


def test_a_file_in_parts_is_the_file(tmp_path: Path) -> None:
    path = tmp_path / "rank_1.log"
    path.write_text(_lines(3000, 1))
    rules = rules_of(packed(load_signatures()))
    (want,) = wanted(sources([path])[0])
    (one,) = read_one(want, rules)
    for part in (10_000, 33_333):
        pieces = ranges.parted([want], part)
        assert len(pieces) > 3
        found = ranges.whole([one for piece in pieces for one in read_one(piece, rules)])
        assert found.file == one.file
        assert [(hit.line, hit.offset, hit.fields, hit.times_seen) for hit in found.hits] == [
            (hit.line, hit.offset, hit.fields, hit.times_seen) for hit in one.hits
        ]
        assert [(raised.message, raised.hit.line) for raised in found.raised] == [
            (raised.message, raised.hit.line) for raised in one.raised
        ]
        assert found.steps == one.steps
        assert found.world_sizes == one.world_sizes


def test_a_file_that_would_be_cut_where_it_is_utf_16_stays_whole(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    head = "".join(f"step {step} loss {2 - step / 9000:.4f}\n" for step in range(4000))
    rest = "".join(f"step {step} loss {2 - step / 9000:.4f}\n" for step in range(4000, 8000))
    path.write_bytes(head.encode() + rest.encode("utf-16-le"))
    (want,) = wanted(sources([path])[0])
    assert len(ranges.parted([want], len(head))) == 1
    assert read_logs([path]).lines_read == 8000
    path.write_bytes((head + rest).encode())
    (want,) = wanted(sources([path])[0])
    assert len(ranges.parted([want], len(head) // 2)) > 2


def test_processes_give_the_same(tmp_path: Path) -> None:
    for rank in range(6):
        (tmp_path / f"rank_{rank}.log").write_text(_lines(200, rank))
    kept = packed(load_signatures())
    work = wanted(sources([tmp_path])[0])
    told: list[tuple[int, int]] = []
    batch, files = pool._BATCH, pool._BATCH_FILES
    pool._BATCH_FILES = 2
    try:
        many = pool.read_all(work, rules_of(kept), kept, processes=2, tell=lambda done, of: told.append((done, of)))
    finally:
        pool._BATCH, pool._BATCH_FILES = batch, files
    assert join([part for parts in many for part in parts]) == read_logs([tmp_path])
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_a_reader_that_dies_costs_its_own_file_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a.log", "b.log", "c.log"):
        (tmp_path / name).write_text(_lines(10, 0))
    read = pool.Worker.read

    def dies(worker: pool.Worker, work: list[object]) -> object:
        if any(one.source.path.endswith("b.log") for one in work):  # type: ignore[attr-defined]
            worker._process.kill()
            worker._process.wait()
        return read(worker, work)  # type: ignore[arg-type]

    monkeypatch.setattr(pool.Worker, "read", dies)
    monkeypatch.setattr(pool, "_BATCH_FILES", 2)
    kept = packed(load_signatures())
    work = wanted(sources([tmp_path])[0])
    reading = join([part for parts in pool.read_all(work, rules_of(kept), kept, processes=2) for part in parts])
    assert [file.kind for file in reading.files] == ["text", "unreadable", "text"]
    assert reading.files[1].problem is not None
    assert "killed" in reading.files[1].problem
    assert {hit.file for hit in reading.hits} == {0, 2}


ON_A_CLUSTER = """\
import json, sys, time
import msgspec, ray
from ray.cluster_utils import Cluster
from preflight.source.logs import pool, read_logs

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
second = cluster.add_node(num_cpus=1)
ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
nodes = [sum(node["Alive"] for node in ray.nodes())]
pool._BATCH_FILES = 1
heaps = []


def tell(done, of):
    # The first heap is read; the second machine has one in hand, or is about to.
    heaps.append(of)
    if done == 1:
        cluster.remove_node(second, allow_graceful=False)


reading = read_logs(sys.argv[2:], engine="ray", tell=tell)
deadline = time.monotonic() + 60
while sum(node["Alive"] for node in ray.nodes()) > 1 and time.monotonic() < deadline:
    time.sleep(0.2)
nodes.append(sum(node["Alive"] for node in ray.nodes()))
with open(sys.argv[1], "w") as out:
    json.dump({"nodes": nodes, "heaps": heaps, "reading": msgspec.json.encode(reading).decode()}, out)
ray.shutdown()
cluster.shutdown()
"""


@pytest.mark.ray
@pytest.mark.slow
def test_a_machine_that_is_lost_changes_nothing(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="ray has no build for this Python")
    folder = tmp_path / "logs"
    folder.mkdir()
    for rank in range(12):
        (folder / f"rank_{rank}.log").write_text(_lines(300, rank))
    script = tmp_path / "on_a_cluster.py"
    script.write_text(ON_A_CLUSTER)
    source = Path(__file__).parents[3] / "src"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(source), os.environ.get("PYTHONPATH", "")])}
    environment |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
    out = tmp_path / "out.json"
    command = [sys.executable, str(script), str(out), str(folder)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(out.read_text())
    assert told["nodes"] == [2, 1]
    assert told["heaps"] == [12] * 12
    here = read_logs([folder])
    assert told["reading"] == msgspec.json.encode(here).decode()
    assert len(here.raised) == 12 * 6


def test_without_ray_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match="ray is not installed"):
        cluster.read_on_cluster([], b"")
