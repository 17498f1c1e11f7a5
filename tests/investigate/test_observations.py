"""What tells causes apart: the arithmetic of memory, kernel logs, exit codes, series; and how it moves probabilities."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from preflight.catalog.signature_files import load_signatures
from preflight.investigate.judge import judge
from preflight.investigate.observations.memory_arithmetic import numbers_of
from preflight.investigate.observations.observation import Observation
from preflight.investigate.observations.weighing import kinds, weighed
from preflight.vocabulary.incident import Hypothesis, Incident
from preflight.vocabulary.log import LogFile, NodeEvent, Reading, StepLine, Who

from .readings import ending, files, hit, steps

GIB = 1 << 30
OLD = (
    "RuntimeError: CUDA out of memory. Tried to allocate 64.00 MiB (GPU 0; 10.76 GiB total capacity; "
    "{allocated} GiB already allocated; 25.44 MiB free; {reserved} GiB reserved in total by PyTorch)"
)
NEW = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {wanted} GiB. GPU 3 has a total capacity of 79.15 GiB of which "
    "{free} GiB is free. {others}Including non-PyTorch memory, this process has {held} GiB memory in use. Of the allocated memory "
    "{allocated} GiB is allocated by PyTorch, and {unused} GiB is reserved by PyTorch but unallocated."
)


def _oom(text: str, last_step: int = 40, **more: Any) -> Incident:
    line = msgspec.structs.replace(hit("oom.cuda-allocation", 0, 5000, 5000.0), text=text)
    told = more.pop("steps", steps(range(1), range(last_step)))
    return judge(Reading(files=(*files(1), *more.pop("files", ())), hits=(line,), steps=told, world_size=1, **more))


def _first(incident: Incident) -> Hypothesis:
    assert math.isclose(sum(one.probability for one in incident.hypotheses), 1.0, abs_tol=1e-9)
    return incident.hypotheses[0]


def test_both_forms_of_the_message_are_read() -> None:
    old = numbers_of(OLD.format(allocated="9.61", reserved="9.76"))
    assert old is not None
    assert old.wanted == 64 * (1 << 20)
    assert old.capacity == pytest.approx(10.76 * GIB)
    assert old.unused == pytest.approx(0.15 * GIB)
    assert old.others == 0.0  # 10.76 - 0.025 - 9.76 = 0.975 GiB: a context, and nobody's share
    new = numbers_of(NEW.format(wanted="2.00", free="1.20", others="Process 2211 has 40.10 GiB memory in use. ", held="37.80",
                                allocated="30.00", unused="7.10"))  # fmt: skip
    assert new is not None
    assert (new.pids, new.others) == ((2211,), pytest.approx(40.1 * GIB))
    assert new.held == pytest.approx(37.8 * GIB)
    assert numbers_of("nothing of the kind") is None
    assert numbers_of("Tried to allocate 1.2.3 GiB") is None


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (NEW.format(wanted="2.00", free="1.20", others="", held="77.90", allocated="76.00", unused="0.90"), "peak-exceeds-device"),
        (NEW.format(wanted="4.00", free="1.20", others="", held="77.90", allocated="60.00", unused="16.00"), "fragmentation"),
        (NEW.format(wanted="2.00", free="1.20", others="Process 7 has 40.10 GiB memory in use. ", held="37.80", allocated="36.0",
                    unused="0.3"), "other-process-on-device"),
        (NEW.format(wanted="160.00", free="70.00", others="", held="9.1", allocated="8.0", unused="0.3"), "peak-exceeds-device"),
        (OLD.format(allocated="5.10", reserved="9.90"), "fragmentation"),
        (OLD.format(allocated="9.90", reserved="9.95"), "peak-exceeds-device"),
        (OLD.format(allocated="3.00", reserved="3.10"), "other-process-on-device"),
    ],
)  # fmt: skip
def test_the_numbers_of_the_message_tell_the_shortages_apart(text: str, cause: str) -> None:
    first = _first(_oom(text))
    assert first.cause == cause
    assert "GiB" in first.reasons[0].text
    assert first.reasons[0].weight > 0
    assert "memory-arithmetic" not in first.discriminated_by


FULL = NEW.format(wanted="2.00", free="1.20", others="", held="77.90", allocated="76.00", unused="0.90")


def test_memory_that_grew_over_the_steps_is_kept_from_step_to_step() -> None:
    grows = tuple(
        msgspec.structs.replace(line, values={"memory_bytes": 40e9 + 1e8 * (line.step or 0)})
        for line in steps(range(1), range(300))
    )
    assert _first(_oom(FULL, steps=grows)).cause == "memory-grows"
    flat = tuple(msgspec.structs.replace(line, values={"memory_bytes": 70e9}) for line in steps(range(1), range(300)))
    assert _first(_oom(FULL, steps=flat)).cause == "peak-exceeds-device"


def test_what_happens_in_the_first_step_did_not_grow() -> None:
    at_once, late = _oom(FULL, 1), _oom(FULL, 1000)
    chance = {
        name: next(one.probability for one in incident.hypotheses if one.cause == "memory-grows")
        for name, incident in (("at once", at_once), ("late", late))
    }
    assert chance["at once"] < 0.02 < chance["late"]


def _killed(events: tuple[NodeEvent, ...] = (), kernel: bool = False) -> Incident:
    more = (LogFile(index=9, path="dmesg.txt", kind="kernel", who=Who(node="node0")),) if kernel or events else ()
    return judge(Reading(files=(*files(2), *more), steps=steps(range(2), range(30)), endings=(ending(1, -9), ending(0, -6)),
                         events=events, world_size=2))  # fmt: skip


def _chance(incident: Incident, cause: str) -> float:
    return sum(one.probability for one in incident.hypotheses if one.cause == cause)


def test_a_kernel_log_confirms_a_kill_for_memory_and_its_silence_speaks_against_it() -> None:
    line = msgspec.structs.replace(hit("oom.kernel", 9, 3), text="Out of memory: Killed process 77 (python)")
    event = NodeEvent(
        kind="oom-kill", hit=line, node="node0", pid=77, fatal=True, meaning="The kernel killed a process"
    )
    confirmed, nothing, silent = _killed((event,)), _killed(), _killed(kernel=True)
    assert _chance(nothing, "host-out-of-memory") > _chance(silent, "host-out-of-memory") > 0
    assert _chance(confirmed, "signal-from-outside") < _chance(nothing, "signal-from-outside")


def test_probabilities_add_up_to_what_they_did_and_one_cause_is_never_certain() -> None:
    prior = [
        Hypothesis(cause="a", title="a", category="oom", probability=0.5, discriminated_by=("one", "two")),
        Hypothesis(cause="b", title="b", category="oom", probability=0.4),
        Hypothesis(cause="something-else", title="else", category="other", probability=0.1),
    ]
    seen = {"one": tuple(Observation(text=str(index), odds={"b": 3.0}) for index in range(9))}
    after = weighed(prior, seen)
    assert math.isclose(sum(one.probability for one in after), 1.0)
    assert [one.cause for one in after] == ["b", "a", "something-else"]
    # Nine times e^3 count as e^5, and what has no name keeps 0.02 of the rest: 59.37 / (59.87 x 1.02) = 0.972
    named = 0.4 * math.exp(5) + 0.5
    assert after[0].probability == pytest.approx(0.4 * math.exp(5) / (1.02 * named))
    assert after[2].probability == pytest.approx(0.02 / 1.02)
    assert after[1].discriminated_by == ("two",)
    assert weighed(prior, {}) == tuple(prior)


@pytest.mark.parametrize(("norms", "cause"), [([1.0] * 12 + [9.0, 60.0, 900.0], "up"), ([1.0] * 15, "calm")])
def test_gradients_before_the_first_nan_tell_an_explosion_from_a_bad_batch(norms: list[float], cause: str) -> None:
    lines = tuple(
        StepLine(
            file=0, line=10 + at, step=at, values={"loss": 2.0 if at < len(norms) else math.nan, "grad_norm": norm}
        )
        for at, norm in enumerate([*norms, math.nan, math.nan, math.nan])
    )
    incident = judge(Reading(files=files(1), steps=lines, world_size=1))
    assert incident.category == "numerical"
    chance = {one.cause: one.probability for one in incident.hypotheses}
    assert (chance["learning-rate-too-high"] > chance["bad-batch"]) == (cause == "up")


def test_what_signatures_ask_for_and_what_is_looked_for_have_the_same_names() -> None:
    asked = {name for one in load_signatures() for cause in one.causes for name in cause.discriminated_by}
    assert set(kinds()) & asked
    assert set(kinds()) <= asked | {"memory-per-step"}
