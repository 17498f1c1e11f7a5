from __future__ import annotations

from pathlib import Path

import pytest

from preflight.investigate.case.node_events import category_of, place_of, role_of
from preflight.investigate.case.people import People
from preflight.investigate.diagnose import diagnose
from preflight.source.logs.read import read_logs
from preflight.vocabulary.log import Hit, NodeEvent, Reading, Who

XID = "[Tue Sep 23 06:55:05 2025] NVRM: Xid (PCI:0000:{card}:00): {code}, pid={pid}, name=python, text\n"
BOOT = "[Tue Sep 23 06:00:00 2025] Linux version 5.15.0\n"
CARDS = ("1b", "3b", "4e", "9b")
SMI = "==============NVSMI LOG==============\n\nDriver Version : 535.1\nAttached GPUs : 4\n" + "".join(
    f"GPU 00000000:{card.upper()}:00.0\n    Product Name : H100\n    Processes\n        Process ID : {4000 + rank}\n"
    for rank, card in enumerate(CARDS)
)


def reading_of(folder: Path, files: dict[str, str]) -> tuple[Reading, People]:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    reading = read_logs([str(folder)])
    return reading, People(reading)


def logs(*, nccl: bool = False) -> dict[str, str]:
    joins = "n1:{pid}:{pid} [{rank}] NCCL INFO ncclCommInitRank comm 0x5 rank {rank} nranks 4 cudaDev {rank} nvmlDev {rank} busId {card}000 commId 0x1 - Init START\n"
    return {
        f"rank_{rank}.log": (joins.format(pid=4000 + rank, rank=rank, card=card) if nccl else "") + "step 1 loss 2.0\n"
        for rank, card in enumerate(CARDS)
    }


def the_xid(reading: Reading) -> NodeEvent:
    (event,) = [event for event in reading.events if event.kind == "xid"]
    return event


def test_a_card_is_tied_to_its_rank_by_nccl_s_own_lines(tmp_path: Path) -> None:
    reading, people = reading_of(
        tmp_path, {**logs(nccl=True), "dmesg.txt": BOOT + XID.format(card="9b", code=79, pid=0)}
    )
    placed = place_of(the_xid(reading), people)
    assert (placed.rank, placed.how) == (3, "card")


def test_a_card_is_tied_to_its_rank_by_the_processes_that_the_driver_lists(tmp_path: Path) -> None:
    files = {name: f"[rank{rank}] pid {4000 + rank}\n" for rank, name in enumerate(logs())}
    reading, _ = reading_of(
        tmp_path, {**files, "nvidia-smi.txt": SMI, "dmesg.txt": BOOT + XID.format(card="4e", code=48, pid=0)}
    )
    known = tuple(
        Hit(signature="x", file=0, line=1, offset=0, text="", who=Who(rank=rank, pid=4000 + rank)) for rank in range(4)
    )
    people = People(
        Reading(files=reading.files, hits=known, environments=reading.environments, events=reading.events, world_size=4)
    )
    placed = place_of(the_xid(reading), people)
    assert (placed.rank, placed.how) == (2, "card")


@pytest.mark.parametrize(("visible", "expected"), [(None, 1), ("3,2,1,0", 2)])
def test_a_card_is_tied_to_its_rank_by_its_number_and_what_the_rank_may_see(visible: str | None, expected: int) -> None:
    from preflight.vocabulary.log import Environment

    cards = Environment(
        source="nvidia-smi", values={f"gpu.{number}.bus": f"0000:{card}:00.0" for number, card in enumerate(CARDS)}
    )
    seen = tuple(
        Environment(who=Who(rank=rank, local_rank=rank), source="env", values={"env.CUDA_VISIBLE_DEVICES": visible})
        for rank in range(4)
        if visible is not None
    )
    ranks = tuple(
        Hit(signature="x", file=0, line=1, offset=0, text="", who=Who(rank=rank, local_rank=rank)) for rank in range(4)
    )
    people = People(Reading(hits=ranks, environments=(cards, *seen), world_size=4))
    event = NodeEvent(kind="xid", hit=Hit(signature="", file=-1, line=1, offset=0, text=""), device="0000:3b:00.0")
    assert place_of(event, people).rank == expected


def event(kind: str, **more: object) -> NodeEvent:
    return NodeEvent(kind=kind, hit=Hit(signature="", file=-1, line=1, offset=0, text=""), **more)  # type: ignore[arg-type]


def people_of(*whos: Who) -> People:
    hits = tuple(Hit(signature="x", file=0, line=1, offset=0, text="", who=who) for who in whos)
    return People(Reading(hits=hits, world_size=len(whos)))


def test_a_process_is_looked_for_on_its_own_node() -> None:
    people = people_of(Who(rank=0, node="a", pid=77), Who(rank=1, node="b", pid=77))
    assert place_of(event("oom-kill", pid=77, node="b"), people).rank == 1
    assert place_of(event("oom-kill", pid=77, node="c"), people).rank is None
    assert place_of(event("oom-kill", pid=77), people).rank is None


def test_a_node_with_one_rank_stands_for_it_and_one_with_more_does_not() -> None:
    people = people_of(Who(rank=0, node="a"), Who(rank=1, node="b"), Who(rank=2, node="b"))
    assert place_of(event("soft-lockup", node="a"), people).rank == 0
    placed = place_of(event("soft-lockup", node="b"), people)
    assert (placed.rank, placed.node, placed.how) == (None, "b", "node")


def test_an_event_that_names_the_rank_needs_nothing_else() -> None:
    assert place_of(event("ras-mismatch", values={"rank": 5}), people_of(Who(rank=0))).rank == 5


@pytest.mark.parametrize(
    ("one", "category", "role"),
    [
        (event("xid", code=79, fatal=True, values={"category": "hardware"}), "hardware", "confirmation"),
        (event("xid", code=31, values={"category": "usercode"}), "usercode", "confirmation"),
        (event("xid", code=45, values={"category": "other", "follows": True}), "other", "cascade"),
        (event("oom-kill", fatal=True), "oom", "confirmation"),
        (event("job-state", fatal=True, values={"state": "TIMEOUT"}), "preemption", "confirmation"),
        (event("job-state", fatal=True, values={"state": "OUT_OF_MEMORY"}), "oom", "confirmation"),
        (event("job-state", fatal=True, values={"state": "FAILED"}), "other", "teardown"),
        (event("pod-state", fatal=True, values={"reason": "OOMKilled"}), "oom", "confirmation"),
        (event("link-up"), "hardware", "benign"),
        (event("pcie-corrected"), "hardware", "benign"),
        (event("storage-lost", fatal=True), "checkpoint", "confirmation"),
    ],
)
def test_what_an_event_means(one: NodeEvent, category: str, role: str) -> None:
    assert (category_of(one), role_of(one)) == (category, role)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("NVRM: Xid (PCI:0000:6d:00): 79, pid=4242, name=python, GPU has fallen off the bus.", "hardware.xid-lost"),
        ("NVRM: Xid (PCI:0000:6d:00): 119, Timeout waiting for RPC from GSP! RPC timeout", "hardware.xid-firmware"),
    ],
)
def test_of_what_says_the_same_of_a_line_that_is_told_which_says_more(tmp_path: Path, line: str, told: str) -> None:
    (tmp_path / "dmesg.log").write_text(f"[ 84213.116032] {line}\n")
    reading = read_logs([tmp_path])
    assert len({hit.signature for hit in reading.hits}) > 1
    incident = diagnose(tmp_path).incident
    assert incident is not None
    assert incident.signature == told
    titles = [moment.text for moment in incident.timeline]
    assert len(set(titles)) == len(titles) == 1


def test_whom_the_kernel_killed_says_more_than_that_it_looked_for_one(tmp_path: Path) -> None:
    (tmp_path / "dmesg.log").write_text(
        "[59644.583101] python invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0\n"
        "[59644.583329] Memory cgroup out of memory: Killed process 32333 (python) total-vm:1062736kB, anon-rss:313000kB\n"
    )
    incident = diagnose(tmp_path).incident
    assert incident is not None
    assert incident.signature == "oom.cgroup-killed"
