"""Figures of the textbook's protocol: worked out again, right ones reproduced and wrong ones told as the guide tells them."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest

from preflight import EventLogger, diagnose
from preflight.investigate.bisect.lattice import Shape
from preflight.investigate.bisect.outcome import Outcome
from preflight.investigate.bisect.scale_change import Setup, scale_change
from preflight.investigate.bisect.search import find_breaking_point
from preflight.investigate.events.reading import read_events
from preflight.investigate.why import explained

PAGE = Path(__file__).parents[2] / "docs" / "concepts" / "investigation-textbook.md"


def _rounded_bisection_ends(point: int) -> bool:
    """Whether halving ends where the middle is rounded to a power of two within 2 of it."""
    low, high, seen = 8, 64, set()
    while high - low > 1:
        if (low, high) in seen:
            return False
        seen.add((low, high))
        middle = (low + high) // 2
        middle = next((power for power in (8, 16, 32, 64, 128) if abs(middle - power) <= 2), middle)
        low, high = (middle, high) if middle < point else (low, middle)
    return True


def test_a_middle_rounded_to_a_power_of_two_never_ends_for_22_of_56_points_and_ours_always_does() -> None:
    endless = [point for point in range(9, 65) if not _rounded_bisection_ends(point)]
    assert endless == [*range(9, 20), *range(30, 37), *range(61, 65)]
    assert f"{len(endless)} of the 56 breaking points" in PAGE.read_text("utf-8")
    for point in range(9, 65):
        found = find_breaking_point(
            range(8, 65), lambda value, at=point: Outcome(kind="fail" if value >= at else "pass")
        )
        assert found.fails == point
        assert found.tests <= math.ceil(math.log2(56)) + 2


def test_what_changes_from_8_to_64_gpus_is_right_where_the_textbook_is_and_corrected_where_not() -> None:
    change = scale_change(8, 64, Setup(shape=Shape(global_batch=1024, micro_batch=16), parameters=1e9))
    assert (change["model copies"].before, change["model copies"].after) == (8, 64)
    assert (change["global batch"].before, change["global batch"].after) == (1024, 1024)  # 128 and 16 for each GPU
    assert 1024 // change["model copies"].before == 128
    assert 1024 // change["model copies"].after == 16
    assert (change["steps of the ring"].before, change["steps of the ring"].after) == (2 * 7, 2 * 63)  # not 7 and 63
    assert any("More than one node" in said for said in change.thresholds)


@pytest.mark.parametrize(
    ("line", "category"),
    [
        ("RuntimeError: CUDA out of memory. Tried to allocate 20.00 GiB", "oom"),
        ("RuntimeError: NCCL error: unhandled system error, ETIMEDOUT", "network"),
        ("ValueError: Loss is nan at step 1000", "numerical"),
        ("RuntimeError: Expected all tensors to be on the same device, but found cuda:0 and cpu!", "usercode"),
        ("NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus.", "hardware"),
    ],
)
def test_the_lines_of_the_triage_exercise_get_their_categories(line: str, category: str, tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(f'Traceback (most recent call last):\n  File "train.py", line 12, in <module>\n    main()\n{line}\n')
    incident = diagnose(str(log)).incident
    assert incident is not None
    assert incident.category == category
    if category == "network":
        assert incident.root_category is None  # a collective that failed is a symptom


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        (r"Inf", "[2026-01-01 10:00:00] INFO trainer: step 10 loss 2.31"),
        (r"OOM", "checking whether there is room for the next shard"),
        (r"Socket", "node0:1:2 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0>"),
        (r"loss.*nan|NaN", "epoch 3 loss 0.41 data set finance"),
        (r"Timeout", "store: TCPStore with timeout 1800 s"),
    ],
)
def test_lines_of_a_healthy_run_that_patterns_without_case_take_for_failures(
    pattern: str, line: str, tmp_path: Path
) -> None:
    assert re.search(pattern, line, re.IGNORECASE)
    log = tmp_path / "train.log"
    steps = "".join(f"step {step} loss {3 - step / 50:.3f}\n" for step in range(40))
    log.write_text(f"{steps}{line}\n{steps.replace('step ', 'step 1')}")
    report = diagnose(str(log))
    assert report.incident is not None
    assert (report.verdict, report.incident.category) == ("GO", "none")


def test_the_chain_of_the_slow_gpu_is_kept_as_told_by_a_person(tmp_path: Path) -> None:
    log = tmp_path / "dmesg.txt"
    log.write_text("[ 10.5] NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus.\n")
    told = (
        "The card reached 85 degrees, 13 more than the others",
        "Its slot gets less air",
        "A bundle of cables lies before the intake",
        "Storage was added two weeks ago",
        "Nobody measures temperatures after a change of the hardware",
    )
    before = diagnose(str(log))
    after = explained(before, told)
    assert before.incident is not None
    assert after.incident is not None
    answers = [why.answer for why in after.incident.five_whys]
    assert [answer for answer in answers if answer in told] == list(told)
    assert all(why.known != "observed" for why in after.incident.five_whys if why.answer in told)


def test_the_event_file_of_the_exercise_is_written_and_read(tmp_path: Path) -> None:
    path = tmp_path / "training_events.jsonl"
    logger = EventLogger(str(path))
    logger.log_checkpoint(100, "step-100.pt")
    logger.log_lr_change(110, 0.1, 0.01)
    logger.log_failure(120, "CUDA out of memory", "oom")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert all({"timestamp", "event_type", "details", "step"} <= row.keys() for row in rows)
    assert rows[0]["details"] == {"path": "step-100.pt"}
    assert rows[1]["details"] == {"old": 0.1, "new": 0.01}
    events, left_out = read_events([str(path)])
    assert [one.event_type for one in events] == ["checkpoint", "lr_change", "failure"]
    assert left_out == []


def test_every_class_and_exercise_of_the_chapter_stands_on_the_page() -> None:
    page = PAGE.read_text("utf-8")
    classes = (
        "triage_check", "check_all_ranks_alive", "check_memory_headroom", "EnvironmentChecker", "CrashAnalyzer",
        "aggregate_rank_logs", "StallDetector", "PerformanceRegression", "BisectionDebugger", "bisection_debug",
        "run_training_test", "bisect_batch_size", "bisect_layers", "analyze_scale_change", "test_compute_only",
        "test_communication_only", "test_memory_only", "test_data_loading", "TopologyAnalyzer", "FiveWhysAnalyzer",
        "FiveWhysAnalysis", "HypothesisTester", "CorrelationAnalyzer", "EventLogger", "FixRegistry", "FixVerifier",
        "PreventionChecklist", "create_llama_checklist", "TriageSystem",
    )  # fmt: skip
    assert [name for name in classes if name not in page] == []
    for target in re.findall(r"\]\(([\w./-]+\.md)", page):
        assert (PAGE.parent / target).is_file(), target
