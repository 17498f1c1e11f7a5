"""A machine's own log beside a run that came to its end, and beside one that did not."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight import diagnose
from preflight.vocabulary.incident import Incident

KERNEL = (
    "CPU5: Core temperature above threshold, cpu clock throttled (total events = 1)",
    "mce: [Hardware Error]: Machine check events logged",
    "mlx5_core 0000:5d:00.0 mlx5_3: Port: 1 Link DOWN",
    "NVRM: Xid (PCI:0000:5d:00): 43, pid=777, name=other, Ch 00000008",
    "Memory cgroup out of memory: Killed process 999 (jupyter) total-vm:312045120kB, anon-rss:241203456kB, file-rss:0kB",
)


def judged(folder: Path, kernel: str, *, last: tuple[int, ...] = (20, 20), done: bool = True) -> Incident:
    for rank, steps in enumerate(last):
        lines = [
            f"INFO rank {rank} pid {4000 + rank} step {step} loss {3 - step / 20:.2f}" for step in range(1, steps + 1)
        ]
        lines += ["INFO training finished"] if done and rank == 0 else []
        (folder / f"rank_{rank}.log").write_text("\n".join(lines) + "\n")
    (folder / "host.dmesg").write_text(f"[ 9123.112233] {kernel}\n")
    incident = diagnose([str(folder)]).incident
    assert incident is not None
    return incident


@pytest.mark.parametrize("kernel", KERNEL)
def test_a_run_that_came_to_its_end_did_not_fail_of_what_a_kernel_says_at_some_time(
    tmp_path: Path, kernel: str
) -> None:
    found = judged(tmp_path, kernel)
    assert (found.category, found.state) == ("none", "ended")


@pytest.mark.parametrize("how", [{"last": (20, 11)}, {"done": False}])
def test_where_a_rank_was_left_behind_or_nobody_says_that_it_is_done_the_kernel_is_heard(
    tmp_path: Path, how: dict
) -> None:  # type: ignore[type-arg]
    assert judged(tmp_path, KERNEL[-1], **how).category == "oom"


@pytest.mark.parametrize(("kernel", "category"), [(KERNEL[0], "none"), (KERNEL[3].replace(" 43,", " 79,"), "hardware")])
def test_what_a_card_or_a_processor_survives_is_no_failure_of_a_run_that_goes_on(
    tmp_path: Path, kernel: str, category: str
) -> None:
    assert judged(tmp_path, kernel, done=False).category == category
