from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from preflight.catalog.known_variables import libraries, unknown
from preflight.cli.main import main
from preflight.errors import InputError
from preflight.investigate.doctor.asking import NoAnswer, ask
from preflight.investigate.doctor.compare import compare, suspects
from preflight.investigate.doctor.findings import of_differences, of_snapshot, ranks_text
from preflight.investigate.doctor.snapshot import Snapshot, collectors, encode, read, take
from preflight.investigate.doctor.wanted import Wanted

GB = 10**9


def usual(rank: int, **changed: object) -> Snapshot:
    """What rank 8 n + k of a healthy cluster sees: everything alike, amounts that differ by some per cent."""
    values = {
        "host.name": f"node{rank // 8}", "host.kernel": "5.15.0-1061", "torch.version": "2.7.0+cu128", "torch.nccl": "2.26.2",
        "driver.version": "570.124.06", "gpu.count": 8, "environment.RANK": str(rank), "environment.WORLD_SIZE": "64",
        "environment.NCCL_SOCKET_IFNAME": "eth0", "interface.eth0.mtu": 9000, "limit.memlock": "unlimited",
        "memory.available_bytes": 900 * GB + (rank * 37 % 11) * 4 * GB, "memory.total_bytes": 1000 * GB,
        "infiniband.mlx5_0.1.symbol_errors": 0, "gpu.0.uuid": f"GPU-{rank:08x}", "clock.unix": 1.7e9 + rank,
    }  # fmt: skip
    values.update({key.replace("__", "."): value for key, value in changed.items()})
    return Snapshot(rank=rank, node=f"node{rank // 8}", values=values)  # type: ignore[arg-type]


def test_sixty_four_ranks_that_are_alike_differ_in_nothing() -> None:
    assert compare({rank: usual(rank) for rank in range(64)}) == ()


@pytest.mark.parametrize(
    ("key", "value", "weight"),
    [
        ("driver.version", "550.54.15", "warning"),
        ("torch.nccl", "2.21.5", "error"),
        ("environment.NCCL_SOCKET_IFNAME", "ib0", "warning"),
        ("environment.NCCL_ALGO", "Tree", "error"),
        ("interface.eth0.mtu", 1500, "warning"),
        ("gpu.count", 7, "error"),
        ("memory.available_bytes", 300 * GB, "warning"),
        ("infiniband.mlx5_0.1.symbol_errors", 17, "warning"),
        ("limit.memlock", 65536, "error"),
    ],
)
def test_one_node_of_eight_that_drifted_is_found(key: str, value: object, weight: str) -> None:
    ranks = {rank: usual(rank, **({key: value} if rank // 8 == 5 else {})) for rank in range(64)}
    (difference,) = compare(ranks)
    assert difference.key == key
    assert difference.weight == weight
    assert difference.unusual == {str(value): tuple(range(40, 48))}
    (finding,) = of_differences((difference,), ranks)
    assert finding.location.node == "node5"
    assert "ranks 40-47" in finding.message
    assert {rank for rank, _ in suspects((difference,), {rank: one.node for rank, one in ranks.items()})} == set(
        range(40, 48)
    )


def test_a_value_that_one_rank_lacks_is_a_difference() -> None:
    ranks = {rank: usual(rank) for rank in range(4)}
    del ranks[2].values["environment.NCCL_SOCKET_IFNAME"]
    (difference,) = compare(ranks)
    assert difference.unusual == {"not there": (2,)}


def test_half_against_half_accuses_nobody() -> None:
    ranks = {rank: usual(rank, torch__version="2.6.0" if rank % 2 else "2.7.0") for rank in range(8)}
    (difference,) = compare(ranks)
    assert "no value is in the majority" in difference.reason
    assert suspects((difference,), dict.fromkeys(ranks)) == []


def test_two_ranks_with_other_amounts_of_memory_are_not_compared() -> None:
    assert compare({0: usual(0), 1: usual(1, memory__available_bytes=100 * GB)}) == ()


def test_names_that_nobody_reads_are_told_with_what_was_meant() -> None:
    wrong = unknown("NCCL_TIMEOUT")
    assert wrong is not None
    assert "timeout=" in (wrong.instead or "")
    near = unknown("NCCL_SOCKET_IFNAMES")
    assert near is not None
    assert near.nearest == "NCCL_SOCKET_IFNAME"
    slip = unknown("TORCH_NCCL_BLOCKING_WIAT")
    assert slip is not None
    assert slip.nearest == "TORCH_NCCL_BLOCKING_WAIT"


@pytest.mark.parametrize(
    "name",
    ["NCCL_DEBUG", "NCCL_IB_HCA", "NCCL_ALGO", "NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE", "NCCL_NET_GDR_LEVEL", "NCCL_BUFFSIZE",
     "NCCL_IB_GID_INDEX", "NCCL_CUMEM_ENABLE", "NCCL_NVLS_ENABLE", "NCCL_TOPO_FILE", "NCCL_NET_PLUGIN", "NCCL_CROSS_NIC",
     "TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_DISTRIBUTED_DEBUG", "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", "GLOO_SOCKET_IFNAME",
     "TORCHELASTIC_RUN_ID", "TORCH_HOME", "TORCH_MY_OWN_THING", "NCCL_GPUDIRECTTCPX_TX_BINDINGS", "HOME"],
)  # fmt: skip
def test_names_that_are_read_and_those_of_others_are_not_told(name: str) -> None:
    assert unknown(name) is None


def test_the_lists_say_where_they_were_read() -> None:
    assert {one.library for one in libraries()} >= {"NCCL", "torch"}
    for one in libraries():
        assert one.sources
        assert len(one.names) == len(set(one.names)) > 100


def test_a_program_that_does_not_answer_is_given_up() -> None:
    began = time.monotonic()
    with pytest.raises(NoAnswer, match="did not answer within"):
        ask([sys.executable, "-c", "import time; time.sleep(600)"], 0.5)
    assert time.monotonic() - began < 60
    with pytest.raises(NoAnswer, match="no-such-program"):
        ask(["no-such-program"], 0.5)
    with pytest.raises(NoAnswer, match="ended with 3: why"):
        ask([sys.executable, "-c", "print('why'); raise SystemExit(3)"], 60)


def test_a_snapshot_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("NCCL_TIMEOUT", "1800")
    monkeypatch.setenv("WANDB_API_KEY", "abcdef")
    snapshot = take(Wanted(python=sys.executable, checkpoints=str(tmp_path), checkpoint_bytes=1, seconds=60))
    assert snapshot.rank == 3
    assert snapshot.values["host.processors"] == os.cpu_count()
    assert snapshot.values["checkpoints.writable"] is True
    assert int(snapshot.values["checkpoints.free_bytes"] or 0) > 0
    assert str(snapshot.values["python.version"]).startswith(f"3.{sys.version_info.minor}")
    assert not any("abcdef" in str(value) for value in snapshot.values.values())
    assert not list(tmp_path.iterdir()), "what was written to try is gone"
    assert not [key for key in snapshot.values if key.removesuffix(".problem") in collectors() and key.endswith(".problem")
                if key not in ("torch.problem", "python.problem")]  # fmt: skip
    assert any("NCCL_TIMEOUT" in one.message for one in of_snapshot(snapshot))


def test_a_folder_that_cannot_be_written_to_is_an_error(tmp_path: Path) -> None:
    from preflight.investigate.doctor.collect import disks

    values = disks.collect(Wanted(python=sys.executable, checkpoints=str(tmp_path / "missing"), seconds=60))
    assert values["checkpoints.writable"] is False
    assert "No such file" in str(values["checkpoints.problem"])
    (finding,) = of_snapshot(
        Snapshot(values={key: value for key, value in values.items() if key.startswith("checkpoints")})
    )
    assert finding.severity == "error"


def test_snapshots_are_read_back_by_rank(tmp_path: Path) -> None:
    for rank in (10, 2, 0):
        (tmp_path / f"rank_{rank}.json").write_bytes(encode(usual(rank)))
    assert list(read([str(tmp_path)])) == ["0", "2", "10"]
    assert read([str(tmp_path)])["2"] == usual(2)
    (tmp_path / "again.json").write_bytes(encode(usual(2)))
    with pytest.raises(InputError, match="rank 2 has a snapshot already"):
        read([str(tmp_path)])
    (tmp_path / "again.json").write_text("{}x")
    with pytest.raises(InputError, match="not a snapshot"):
        read([str(tmp_path)])
    with pytest.raises(InputError, match="no snapshot in"):
        read([str(tmp_path / "empty")] if (tmp_path / "empty").mkdir() is None else [])


def test_ranks_as_people_write_them() -> None:
    assert ranks_text((3,)) == "rank 3"
    assert ranks_text((0, 2, 3, 4, 9)) == "ranks 0, 2-4, 9"


def test_the_command_names_the_odd_node(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for rank in range(64):
        changed = {"driver.version": "550.54.15", "environment.NCCL_TIMEOUT": "5"} if rank // 8 == 2 else {}
        (tmp_path / f"rank_{rank}.json").write_bytes(encode(usual(rank, **changed)))
    assert main(["investigate", "doctor", "--compare", str(tmp_path), "--format", "json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["verdict"] == "NO-GO"
    assert {one["location"].get("node") for one in report["findings"]} == {"node2"}
    assert report["notes"][0] == "most unlike the others: ranks 16-23, all of node node2"
    assert {one["key"] for one in report["differences"]} == {"driver.version", "environment.NCCL_TIMEOUT"}
    assert main(["investigate", "doctor", "--compare", str(tmp_path)]) == 1
    assert "550.54.15" in capsys.readouterr().out


def test_each_of_many_ranks_says_a_line_where_its_report_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["investigate", "doctor", "--save", str(tmp_path)]
    for name, value in (("RANK", "0"), ("WORLD_SIZE", "256")):
        monkeypatch.setenv(name, value)
    code = main(line)  # what it answers is of the machine that the test runs on: it may have no torch
    shown = capsys.readouterr()
    assert shown.out == ""
    assert sum("rank 0" in said and "kept in" in said for said in shown.err.splitlines()) == 1
    assert f"investigate doctor --compare {tmp_path}" in shown.err
    assert main([*line, "--verbose"]) == code
    assert "0 warnings" in capsys.readouterr().out
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert main(line) == code
    assert "0 warnings" in capsys.readouterr().out


def test_the_command_keeps_a_snapshot_for_each_rank(tmp_path: Path) -> None:
    for rank in ("0", "1"):
        line = [sys.executable, "-m", "preflight", "investigate", "doctor", "--save", str(tmp_path), "--quiet"]
        done = subprocess.run(line, env={**os.environ, "RANK": rank}, capture_output=True, text=True, timeout=300)
        assert done.returncode in (0, 1), done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"rank_0.json", "rank_1.json"}


@pytest.mark.parametrize("words", [["--compare"], ["somewhere"]])
def test_what_is_misused_is_said(words: list[str]) -> None:
    assert main(["investigate", "doctor", *words]) == 2


FAKE = """\
#!/bin/sh
case "$*" in
  *--query-gpu*) cat <<'END'
570.124.06, NVIDIA H100 80GB HBM3, 00000000:1B:00.0, GPU-aa, 81559, 4, Enabled, Enabled, Disabled, Default, 700.00, 1980, [N/A], 0x0000000000000000, 5, 16, 0, 31
570.124.06, NVIDIA H100 80GB HBM3, 00000000:43:00.0, GPU-bb, 81559, 4, Enabled, Enabled, Disabled, Default, 700.00, 1980, [N/A], 0x0000000000000000, 5, 16, 2, 33
END
  ;;
  *topo*) printf '\\tGPU0\\tGPU1\\tCPU Affinity\\nGPU0\\t X \\tNV18\\t0-47\\nGPU1\\tNV18\\t X \\t0-47\\n' ;;
esac
"""


@pytest.mark.skipif(os.name == "nt", reason="a shell script stands for the driver's program")
def test_cards_are_read_as_the_driver_shows_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from preflight.investigate.doctor.collect import devices

    (tmp_path / "nvidia-smi").write_text(FAKE)
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    values = devices.collect(Wanted(python=sys.executable, seconds=60))
    assert values["driver.version"] == "570.124.06"
    assert values["gpu.count"] == 2
    assert values["gpu.1.bus"] == "00000000:43:00.0"
    assert values["gpu.0.ecc_uncorrected"] == 0
    assert "gpu.0.clock_applications_mhz" not in values
    assert values["gpu.topology"] == "0-1 NV18"
    (finding,) = of_snapshot(Snapshot(values=values))
    assert finding.message == "card 1 has 2 uncorrected memory errors"
    (tmp_path / "nvidia-smi").write_text(
        "#!/bin/sh\necho 'Failed to initialize NVML: Driver/library version mismatch'; exit 18\n"
    )
    assert "mismatch" in str(devices.collect(Wanted(python=sys.executable, seconds=60))["driver.problem"])
