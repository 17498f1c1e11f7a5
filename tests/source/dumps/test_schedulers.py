from __future__ import annotations

import json
from types import ModuleType

import pytest

from preflight.source.dumps import kubernetes, slurm
from preflight.source.dumps.opening import format_of, read_dump
from preflight.source.dumps.part import Part
from preflight.vocabulary.log import LogFile

PIPES = """JobID|JobName|State|ExitCode|Start|End|NodeList|MaxRSS|ReqMem
77|train|FAILED|1:0|2025-09-23T06:00:00|2025-09-23T06:55:05|n[1-4]||
77.0|python|OUT_OF_MEMORY|0:9|2025-09-23T06:00:00|2025-09-23T06:55:04|n3|512000K|500G
77.1|python|COMPLETED|0:0|2025-09-23T06:00:00|2025-09-23T06:55:05|n4||
78|train|RUNNING|0:0|2025-09-23T07:00:00|Unknown|n5||
"""
COLUMNS = """JobID           JobName      State ExitCode
------------ ---------- ---------- --------
77                train    TIMEOUT      0:0
77.batch          batch CANCELLED+     0:15
"""
JOB = """JobId=77 JobName=train
   UserId=me(1000) GroupId=me(1000)
   JobState=NODE_FAIL Reason=NodeDown Dependency=(null)
   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=1:0
   RunTime=00:55:05 TimeLimit=1-00:00:00 EndTime=2025-09-23T06:55:05
"""
NODE = """NodeName=n3 Arch=x86_64 CoresPerSocket=48
   State=DOWN*+DRAIN ThreadsPerCore=1 TmpDisk=0
   Reason=Not responding [slurm@2025-09-23T06:54:00]
NodeName=n4 Arch=x86_64
   State=IDLE ThreadsPerCore=1
"""
EVENTS = """LAST SEEN   TYPE      REASON      OBJECT            MESSAGE
2m          Normal    Scheduled   pod/train-0       Successfully assigned default/train-0 to n1
90s         Warning   OOMKilling  node/n3           Memory cgroup out of memory: Killed process 4711 (python)
60s         Warning   BackOff     pod/train-worker-3   Back-off restarting failed container
"""
PODS = {
    "apiVersion": "v1",
    "kind": "List",
    "items": [
        {"kind": "Pod", "metadata": {"name": "train-3"}, "spec": {"nodeName": "n3"},
         "status": {"containerStatuses": [{"state": {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": "2025-09-23T06:55:05Z"}}}]}},
        {"kind": "Event", "type": "Warning", "reason": "Evicted", "message": "The node was low on resource: memory.", "count": 2,
         "lastTimestamp": "2025-09-23T06:54:00Z", "involvedObject": {"kind": "Pod", "name": "train-1"}, "source": {"host": "n1"}},
        {"kind": "Event", "type": "Normal", "reason": "Pulled", "involvedObject": {"kind": "Pod", "name": "train-1"}},
    ],
}  # fmt: skip
DESCRIPTION = """Name:             train-2
Namespace:        default
Node:             n2/10.0.0.2
Containers:
  train:
    State:          Running
    Last State:     Terminated
      Reason:       OOMKilled
      Exit Code:    137
      Started:      Tue, 23 Sep 2025 06:00:00 +0000
      Finished:     Tue, 23 Sep 2025 06:55:05 +0000
Events:
  Type     Reason   Age                From     Message
  ----     ------   ----               ----     -------
  Warning  BackOff  12s (x3 over 40s)  kubelet  Back-off restarting failed container
  Normal   Pulled   10s                kubelet  Container image already present
"""
TIME = 1758610505.0


def part_of(module: ModuleType, text: str) -> Part:
    content = text.encode()
    assert format_of("out.txt", content) is module
    part = read_dump(module, content, LogFile(index=0, path="out.txt", kind="scheduler"))
    assert part.problem is None
    return part


def test_sacct_tells_states_codes_and_signals() -> None:
    part = part_of(slurm, PIPES)
    assert [(event.values["state"], event.node, event.code) for event in part.events] == [
        ("FAILED", None, 1),
        ("OUT_OF_MEMORY", "n3", -9),
    ]
    assert [(ending.code, ending.about.node, ending.time) for ending in part.endings] == [
        (1, None, TIME),
        (-9, "n3", TIME - 1),
        (0, "n4", TIME),
    ]
    assert part.events[1].values["memory"] == "512000K"


def test_sacct_s_own_columns_are_read() -> None:
    part = part_of(slurm, COLUMNS)
    assert [(event.values["state"], event.code) for event in part.events] == [("TIMEOUT", 0), ("CANCELLED+", -15)]


def test_scontrol_tells_jobs_and_nodes() -> None:
    (job,) = part_of(slurm, JOB).events
    assert (job.kind, job.values["state"], job.values["reason"], job.hit.time) == (
        "job-state",
        "NODE_FAIL",
        "NodeDown",
        TIME,
    )
    (node,) = part_of(slurm, NODE).events
    assert (node.kind, node.node) == ("node-state", "n3")
    assert "Not responding" in node.meaning


def test_a_container_may_run_out_of_memory_and_end_with_0() -> None:
    part = part_of(kubernetes, DESCRIPTION.replace("137", "0"))
    assert [event.values["reason"] for event in part.events] == ["OOMKilled", "BackOff"]
    assert part.endings[0].code == 0


def test_a_signal_that_a_shell_told_is_a_signal() -> None:
    (event,) = part_of(slurm, "JobID|State|ExitCode\n7|FAILED|137:0\n").events
    assert event.code == -9


def test_the_table_of_events_tells_pods_and_nodes() -> None:
    kill, back = part_of(kubernetes, EVENTS).events
    assert (kill.kind, kill.node, kill.fatal) == ("node-state", "n3", True)
    assert (back.kind, back.values["pod"], back.values["ordinal"]) == ("pod-state", "train-worker-3", 3)


def test_json_tells_how_containers_ended_and_what_happened() -> None:
    part = part_of(kubernetes, json.dumps(PODS))
    assert [(ending.code, ending.about.node, ending.time) for ending in part.endings] == [(-9, "n3", TIME)]
    assert [(event.values["reason"], event.values["pod"], event.node) for event in part.events] == [
        ("OOMKilled", "train-3", "n3"),
        ("Evicted", "train-1", "n1"),
    ]


def test_a_description_tells_the_last_state_and_the_events() -> None:
    part = part_of(kubernetes, DESCRIPTION)
    assert [(ending.code, ending.about.node, ending.time) for ending in part.endings] == [(-9, "n2", TIME)]
    assert [event.values["reason"] for event in part.events] == ["OOMKilled", "BackOff"]


@pytest.mark.parametrize("module", [slurm, kubernetes])
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\x00" * 50,
        b'{"apiVersion": 1, "items": [3, {"status": {"containerStatuses": [4]}}]}',
        b"JobID|State\n|||\n",
        b"Name:\nEvents:\n Warning\n",
    ],
)
def test_bad_input_breaks_nothing(module: ModuleType, content: bytes) -> None:
    part = read_dump(module, content, LogFile(index=0, path="x", kind="scheduler"))
    assert part.problem is None or "not readable" not in part.problem


@pytest.mark.parametrize("text", ["step|loss\n1|2.0\n", "Name: run\nloss 2\n", '{"step": 1}\n', "JobID 5 started\n"])
def test_other_tables_are_none_of_theirs(text: str) -> None:
    assert format_of("x.txt", text.encode()) not in (slurm, kubernetes)
