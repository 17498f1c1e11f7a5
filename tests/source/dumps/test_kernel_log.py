from __future__ import annotations

import json
from datetime import datetime, timezone

import pytest

from preflight.source.dumps import kernel_log
from preflight.source.dumps.node_event import bus_id, nccl_bus_id
from preflight.source.dumps.opening import format_of, read_dump
from preflight.source.dumps.part import Part
from preflight.vocabulary.log import LogFile, NodeEvent, Who

BOOT = "[    0.000000] Linux version 5.15.0-91-generic (buildd@x) #101\n[    0.100000] Command line: root=/dev/sda\n"
XID = "NVRM: Xid (PCI:0000:9b:00): 79, pid=4711, name=python, GPU has fallen off the bus."
MODIFIED = datetime(2025, 9, 24, tzinfo=timezone.utc).timestamp()
SIXTEEN = datetime(2025, 9, 23, 6, 55, 5, tzinfo=timezone.utc).timestamp()


def part_of(text: str, name: str = "dmesg.txt", node: str | None = None) -> Part:
    content = text.encode()
    assert format_of(name, content) is kernel_log
    file = LogFile(index=2, path=name, kind="kernel", who=Who(node=node), modified=MODIFIED)
    return read_dump(kernel_log, content, file)


def events_of(text: str, **more: str) -> tuple[NodeEvent, ...]:
    return part_of(text, **more).events


@pytest.mark.parametrize(
    ("line", "node", "time"),
    [
        (f"[  812.345678] {XID}", None, None),
        (f"[Tue Sep 23 06:55:05 2025] {XID}", None, SIXTEEN),
        (f"kern  :err   : [Tue Sep 23 06:55:05 2025] {XID}", None, SIXTEEN),
        (f"Sep 23 06:55:05 gpu-17 kernel: {XID}", "gpu-17", SIXTEEN),
        (f"Sep 23 06:55:05 gpu-17 kernel: [  812.345678] {XID}", "gpu-17", SIXTEEN),
        (f"2025-09-23T06:55:05.000000+00:00 gpu-17 kernel: {XID}", "gpu-17", SIXTEEN),
        (f"2025-09-23T08:55:05+0200 gpu-17 kernel: {XID}", "gpu-17", SIXTEEN),
        (f"[  812.345678][ T1234] {XID}", None, None),
    ],
)
def test_every_form_of_a_kernel_log_is_read(line: str, node: str | None, time: float | None) -> None:
    (event,) = events_of(line + "\n")
    assert (event.kind, event.code, event.device, event.pid) == ("xid", 79, "0000:9b:00.0", 4711)
    assert event.fatal
    assert "bus" in event.meaning
    assert event.node == node
    assert event.hit.time == time
    assert event.hit.text == line


def test_the_journal_s_json_bears_hosts_and_times() -> None:
    entries = [
        {
            "__REALTIME_TIMESTAMP": "1758610505123456",
            "_HOSTNAME": "gpu-17",
            "SYSLOG_IDENTIFIER": "kernel",
            "MESSAGE": XID,
        },
        {"__REALTIME_TIMESTAMP": "1758610506000000", "_HOSTNAME": "gpu-17", "MESSAGE": [110, 102, 115]},
    ]
    part = part_of("\n".join(map(json.dumps, entries)))
    (event,) = part.events
    assert (event.node, event.code, event.hit.time) == ("gpu-17", 79, 1758610505.123456)


def test_a_card_that_falls_off_the_bus_in_several_lines_is_one_event_with_its_address() -> None:
    text = BOOT + (
        "[ 1843.308145] NVRM: The NVIDIA GPU 0000:b3:00.0\n"
        "               NVRM: (PCI ID: 10de:26b5) installed in this system has\n"
        "               NVRM: fallen off the bus and is not responding to commands.\n"
    )
    events = [event for event in events_of(text) if event.kind != "boot"]
    assert [(event.kind, event.device, event.fatal) for event in events] == [
        ("fallen-off-the-bus", "0000:b3:00.0", True)
    ]


OOM = """[ 1201.101000] python3 invoked oom-killer: gfp_mask=0x140dca, order=0, oom_score_adj=0
[ 1201.102000] Tasks state (memory values in pages):
[ 1201.102000] [  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name
[ 1201.102000] [    611]     0   611    26843      512   204800        0             0 systemd-journal
[ 1201.102000] [   4241]  1000  4241   520000   419840  3276800        0             0 python3
[ 1201.102000] [   4242]  1000  4242   530000   430080  3276800        0             0 python3
[ 1201.103000] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/job_7,task_memcg=/job_7/step_0,task=python3,pid=4242,uid=1000
[ 1201.103000] Memory cgroup out of memory: Killed process 4242 (python3) total-vm:2120000kB, anon-rss:1720320kB, file-rss:0kB, shmem-rss:12kB, UID:1000
[ 1201.150000] oom_reaper: reaped process 4242 (python3), now anon-rss:0kB, file-rss:0kB, shmem-rss:0kB
"""


def test_an_oom_kill_tells_the_limit_and_who_held_the_memory() -> None:
    (event,) = events_of(OOM, node="n3")
    assert (event.kind, event.pid, event.node, event.fatal) == ("oom-kill", 4242, "n3", True)
    values = event.values
    assert values["limit"] == "cgroup"
    assert values["constraint"] == "memcg"
    assert values["cgroup"] == "/job_7"
    assert values["anon_rss_bytes"] == 1720320 * 1024
    assert values["processes"] == 3
    assert values["largest"] == "python3 4242: 1.6 GiB; python3 4241: 1.6 GiB; systemd-journal 611: 0.0 GiB"
    assert values["same_name"] == "2 of python3: 3.2 GiB"


def test_an_error_that_follows_others_is_marked() -> None:
    (event,) = events_of(
        BOOT.split("\n")[1] + "\n[ 12.345678] NVRM: Xid (PCI:0000:9b:00): 45, pid=4711, name=python, Ch 00000010\n"
    )
    assert not event.fatal
    assert event.values["follows"] is True


def test_a_storm_of_one_error_is_cut_and_counted() -> None:
    line = "[ 12.345678] pcieport 0000:00:01.1: AER: Corrected error received: 0000:00:00.0\n"
    part = part_of(BOOT + line * 1000)
    assert sum(event.kind == "pcie-corrected" for event in part.events) == 50
    assert any("950 more of pcie-corrected" in note for note in part.notes)


@pytest.mark.parametrize(
    "text",
    [
        "[2025-09-23 06:55:05] step 3 loss 2.1\n" * 10,
        "[   12.345678] epoch 3 loss 2.1\n" * 10,
        "Sep 23 06:55:05 INFO trainer: step 3\n" * 10,
        '{"MESSAGE": "x"}\n',
    ],
)
def test_a_training_log_is_no_kernel_log(text: str) -> None:
    assert format_of("rank_0.log", text.encode()) is not kernel_log


@pytest.mark.parametrize(
    "content", [b"", b"\xff\xfe" * 900, BOOT.encode()[:30], OOM.encode()[500:900], b'{"__REALTIME_TIMESTAMP": 1']
)
def test_bad_input_is_no_error(content: bytes) -> None:
    part = read_dump(kernel_log, content, LogFile(index=0, path="dmesg", kind="kernel"))
    assert part.problem is None or "not readable" not in part.problem


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("00000000:3B:00.0", "0000:3b:00.0"),
        ("0000:3b:00", "0000:3b:00.0"),
        ("PCI:0000:9b:00", "0000:9b:00.0"),
        ("3b:00.0", "0000:3b:00.0"),
        ("0002:00:01.1", "0002:00:01.1"),
        ("mlx5_0", "mlx5_0"),
        (None, None),
    ],
)
def test_bus_ids_have_one_form(text: str | None, expected: str | None) -> None:
    assert bus_id(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("4e000", "0000:4e:00.0"), ("101c1000", "0101:c1:00.0"), ("1b000", "0000:1b:00.0"), ("x", None)],
)
def test_nccl_s_bus_ids_are_unpacked(text: str, expected: str | None) -> None:
    assert nccl_bus_id(text) == expected
