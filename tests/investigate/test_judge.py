"""From a reading to an incident: the cause apart from the symptom, who began it, what was recovered from."""

from __future__ import annotations

import msgspec
import pytest

from preflight.investigate.diagnose import report_of
from preflight.investigate.judge import judge
from preflight.report.render import render
from preflight.vocabulary.incident import Incident
from preflight.vocabulary.log import Ending, Frame, LogFile, NodeEvent, Raised, Reading, Spoke, StepLine, Who

from .readings import SIGNATURES, START, ending, files, hit, steps


def judged(**parts: object) -> Incident:
    parts.setdefault("files", files(4))
    parts.setdefault("world_size", 4)
    return judge(Reading(**parts), SIGNATURES)  # type: ignore[arg-type]


def one_out_of_memory() -> Reading:
    victims = (hit("network.watchdog", rank, 60, 640.0, fields={"timeout": 600_000}) for rank in (0, 1, 3))
    return Reading(
        files=files(4),
        hits=(hit("oom.allocation", 2, 50, 21.0), *victims),
        steps=steps(range(4), range(20)),
        endings=(ending(2, 1), ending(0, -6), ending(1, -6), ending(3, -6)),
        world_size=4,
    )


def test_the_symptom_is_not_the_cause() -> None:
    incident = judge(one_out_of_memory(), SIGNATURES)
    assert (incident.category, incident.root_category, incident.symptom_category) == ("oom", "oom", "network")
    assert (incident.state, incident.onset, incident.scope) == ("crashed", "running", "rank")
    assert incident.culprit.ranks == (2,)
    assert incident.culprit.nodes == ("node1",)
    assert incident.signature == "oom.allocation"
    assert incident.first_failure is not None
    assert (incident.first_failure.rank, incident.first_failure.path, incident.first_failure.line) == (
        2,
        "logs/rank_2.log",
        50,
    )
    assert incident.first_failure.step == 19
    assert {moment.text for moment in incident.consequences} >= {"what network.watchdog stands for"}
    assert [one.kind for one in incident.next].count("act") == 1


def test_a_watchdog_speaks_of_the_time_before_its_own_timeout() -> None:
    incident = judge(one_out_of_memory(), SIGNATURES)
    waited = next(one for one in incident.timeline if one.text == "what network.watchdog stands for")
    assert waited.time == START + 40.0


def test_causes_add_up_to_one_with_something_else() -> None:
    incident = judge(one_out_of_memory(), SIGNATURES)
    assert sum(one.probability for one in incident.hypotheses) == pytest.approx(1.0)
    assert incident.hypotheses[0].cause == "peak"
    assert incident.hypotheses[-1].cause == "something-else"
    observed = {one.text for one in incident.next if one.kind == "observe"}
    assert observed == {"look at memory snapshot", "look at the processes on the cards and on the node"}


def test_no_level_without_a_line_is_called_observed() -> None:
    whys = judge(one_out_of_memory(), SIGNATURES).five_whys
    assert [one.known for one in whys][-1] == "unknown"
    assert whys[-1].answer is None
    assert all(one.quotes for one in whys if one.known == "observed")
    assert {one.known for one in whys} == {"observed", "inferred", "unknown"}


def test_a_rank_that_was_killed_says_nothing_and_is_found_by_its_code_and_its_silence() -> None:
    closed = tuple(hit("network.closed", rank, 60, 22.0 + rank / 100) for rank in (0, 1, 2))
    incident = judged(
        hits=closed, steps=steps(range(4), range(20)), endings=(ending(3, -9), ending(0, 1), ending(1, 1))
    )
    assert incident.culprit.ranks == (3,)
    assert incident.symptom_category == "network"
    assert {reason.weight > 0 for reason in incident.culprit.reasons} == {True}


def test_a_rank_that_stands_still_is_found_by_its_silence_alone() -> None:
    waited = tuple(hit("network.watchdog", rank, 60, 640.0, fields={"timeout": 600_000}) for rank in (0, 2, 3))
    incident = judged(hits=waited, steps=steps(range(4), range(20)))
    assert incident.culprit.ranks == (1,)
    assert incident.state == "hung"
    assert incident.category == "network"
    assert "symptom" in incident.headline


def test_a_rank_that_was_asked_to_stop_is_innocent() -> None:
    shape = hit("usercode.shape", 1, 50, 21.0)
    closing = hit("elastic.closing", 0, 70, 22.0, about=Who(rank=3))
    incident = judged(hits=(shape, closing), endings=(ending(1, 1), ending(0, -15), ending(2, -15)))
    assert incident.culprit.ranks == (1,)
    against = {one.rank: [reason.weight for reason in one.reasons] for one in incident.culprit.suspects}
    assert all(weight < 0 for rank, weights in against.items() if rank != 1 for weight in weights)


def test_who_is_named_by_the_others_is_the_suspect_and_not_who_complains() -> None:
    incident = judged(hits=(hit("network.barrier", 0, 50, 21.0, fields={"silent": (2,)}),), steps=steps([0], range(9)))
    assert incident.culprit.ranks == (2,)


def test_the_same_cause_on_all_ranks_has_no_culprit() -> None:
    missing = tuple(hit("data.missing", rank, 20, 3.0 + rank / 50) for rank in range(4))
    incident = judged(hits=missing, endings=tuple(ending(rank, 1) for rank in range(4)))
    assert incident.culprit.ranks == ()
    assert "all ranks" in (incident.culprit.reason or "")
    assert (incident.scope, incident.onset, incident.category) == ("all", "start", "data")


def test_the_first_of_many_alike_is_the_culprit_where_clocks_tell() -> None:
    shapes = tuple(hit("usercode.shape", rank, 50, 30.0 if rank == 2 else 34.0) for rank in (2, 0, 1, 3))
    incident = judged(hits=shapes, steps=steps(range(4), range(20)))
    assert incident.culprit.ranks == (2,)


def test_skewed_clocks_do_not_make_the_first_one_last() -> None:
    """The clock of the second node is 10 s ahead: its line of 12 s later was printed 2 s later."""
    late = tuple(
        msgspec.structs.replace(one, time=(one.time or 0) + (10.0 if one.file >= 2 else 0.0))
        for one in steps(range(4), range(20))
    )
    shapes = (hit("usercode.shape", 0, 50, 31.0), hit("usercode.shape", 3, 50, 39.0))
    incident = judged(hits=shapes, steps=late)
    assert incident.culprit.ranks == (3,)
    clock = next(one for one in incident.clocks if one.node == "node1")
    assert clock.ahead == pytest.approx(10.0)


def test_what_the_run_went_on_after_is_no_failure() -> None:
    incident = judged(hits=(hit("usercode.shape", 1, 15, 5.0), hit("numerical.overflow", 0, 12, 2.0)),
                      steps=steps(range(4), range(40)))  # fmt: skip
    assert (incident.category, incident.state) == ("none", "running")
    assert incident.culprit.ranks == ()
    assert [one.role for one in incident.recovered] == ["recovered", "root"]


def test_steps_of_another_node_show_that_it_went_on_though_no_marker_joins_the_clocks() -> None:
    bad = hit("usercode.shape", 3, 15, 5.0)
    calm = judged(hits=(bad,), steps=steps([0], range(40)))
    assert calm.category == "none"
    closed = hit("network.closed", 0, 90, 60.0)
    assert judged(hits=(bad, closed), steps=steps([0], range(40))).culprit.ranks == (3,)


def test_a_run_that_says_that_it_is_done_has_ended() -> None:
    incident = judged(hits=(hit("progress.end", 0, 80, 50.0),), steps=steps(range(4), range(40)))
    assert (incident.category, incident.state) == ("none", "ended")


def test_nothing_is_not_healthy() -> None:
    incident = judged(files=(LogFile(index=0, path="a.log", kind="text"),), world_size=None)
    assert (incident.category, incident.state) == ("cannot-tell", "unknown")
    assert incident.reason


def test_a_node_that_is_gone_is_named_with_its_ranks() -> None:
    reading = files(6)
    closed = tuple(hit("network.closed", rank, 60, 22.0 + rank / 100) for rank in range(4))
    incident = judged(files=reading, world_size=6, hits=closed, steps=steps(range(6), range(20)))
    assert incident.culprit.ranks == (4, 5)
    assert incident.culprit.nodes == ("node2",)
    assert incident.scope == "node"


def test_the_kernel_confirms_by_the_process_number() -> None:
    kernel = LogFile(index=9, path="dmesg.log", kind="kernel", who=Who(node="node1"))
    event = NodeEvent(kind="xid", code=79, fatal=True, meaning="the card has fallen off the bus", node="node1", pid=4242,
                      hit=hit("hardware.xid", 9, 3, 20.5))  # fmt: skip
    seen = Raised(exception="RuntimeError", message="CUDA error: unspecified launch failure",
                  frames=(Frame("train.py", 3, "step"),), hit=hit("", 3, 50, 21.0))  # fmt: skip
    told = Ending(about=Who(rank=3, pid=4242, node="node1"), code=1, teller="torchrun")
    incident = judged(
        files=(*files(4), kernel), events=(event,), raised=(seen,), endings=(told,), steps=steps(range(4), range(20))
    )
    assert incident.culprit.ranks == (3,)
    assert incident.category == "hardware"


def test_attempts_are_told_apart_and_the_last_one_is_judged() -> None:
    first = (hit("oom.allocation", 1, 30, 12.0), hit("elastic.restart", 0, 35, 20.0))
    second = (hit("usercode.shape", 3, 70, 60.0),)
    lines = (*steps(range(4), range(10)), *steps(range(4), range(5, 20), first_line=40, at=30.0))
    incident = judged(hits=first + second, steps=lines)
    assert [(one.category, one.culprit) for one in incident.attempts] == [("oom", (1,)), ("usercode", (3,))]
    assert (incident.category, incident.culprit.ranks) == ("usercode", (3,))
    assert [(one.first_step, one.last_step) for one in incident.attempts] == [(0, 9), (5, 19)]


def test_folders_of_attempts_are_attempts() -> None:
    named = tuple(
        LogFile(
            index=index, path=f"attempt_{index}/0/stderr.log", kind="text", lines=90, who=Who(rank=0, attempt=index)
        )
        for index in range(2)
    )
    lines = tuple(StepLine(file=index, line=step + 1, step=step, values={}) for index in range(2) for step in range(8))
    incident = judged(files=named, world_size=1, hits=(hit("oom.allocation", 0, 30),), steps=lines)
    assert [one.category for one in incident.attempts] == ["oom", "none"]
    assert (incident.category, incident.state) == ("none", "running")


def test_several_who_speak_in_one_file_can_be_silent_too() -> None:
    shared = LogFile(index=0, path="slurm.out", kind="text", lines=500)
    spoke = tuple(Spoke(file=0, who=Who(rank=rank), lines=50, first_line=1, last_line=300) for rank in range(4))
    waited = tuple(
        msgspec.structs.replace(hit("network.watchdog", rank, 400 + rank), file=0, who=Who(rank=rank))
        for rank in (0, 1, 3)
    )
    incident = judged(files=(shared,), spoke=spoke, hits=waited)
    assert incident.culprit.ranks == (2,)


def test_of_two_that_are_silent_alike_it_is_said_that_it_was_one_of_them() -> None:
    waited = [hit("network.closed", rank, 50, 21.0) for rank in (1, 3)]
    incident = judged(hits=waited, files=files(4, per_node=4), steps=steps(range(4), range(9)))
    assert (incident.culprit.ranks, incident.culprit.one_of) == ((0, 2), True)
    assert incident.headline.startswith("one of ranks 0, 2 on ")
    told = judged(hits=waited, files=files(4, per_node=4), steps=steps(range(4), range(9)), endings=(ending(2, -9),))
    assert (told.culprit.ranks, told.culprit.one_of) == ((2,), False)
    both = judged(hits=waited, files=files(4, per_node=4), endings=(ending(0, -9), ending(2, -9)))
    assert (both.culprit.ranks, both.culprit.one_of) == ((0, 2), False)


def test_a_node_that_falls_silent_is_no_choice_between_its_ranks() -> None:
    waited = [hit("network.closed", rank, 50, 21.0) for rank in (0, 1)]
    incident = judged(hits=waited, steps=steps(range(4), range(9)))
    assert (incident.culprit.ranks, incident.culprit.nodes, incident.culprit.one_of) == ((2, 3), ("node1",), False)


def test_ranks_with_the_same_cause_at_the_same_time_are_named_together_whoever_was_seen_first() -> None:
    alike = [hit("oom.allocation", rank, 50, 21.0) for rank in (1, 2)]
    incident = judged(hits=alike, steps=steps(range(4), range(9)), endings=(ending(2, 1),))
    assert incident.culprit.ranks == (1, 2)
    late = judged(
        hits=(alike[0], hit("oom.allocation", 2, 50, 41.0)), steps=steps(range(4), range(9)), endings=(ending(2, 1),)
    )
    assert late.culprit.ranks == (1,)


def test_two_ranks_that_complain_of_each_other_name_neither() -> None:
    hits = (hit("network.closed", 0, 50, 21.0), hit("network.closed", 1, 50, 21.0))
    incident = judged(hits=hits, files=files(2, per_node=2), world_size=2, endings=(ending(0, 1), ending(1, -15)))
    assert incident.culprit.ranks == ()


@pytest.mark.parametrize("width", [80, 120])
def test_the_report_is_readable_and_names_all_that_a_person_asks_for(width: int) -> None:
    text = render(report_of(one_out_of_memory(), SIGNATURES, ["logs"]), "text", width=width)
    assert all(len(line) <= width for line in text.splitlines())
    for part in ("WHO BEGAN IT  rank 2 on node1", "WHY", "ONLY A CONSEQUENCE", "WHAT TO DO NOW", "WHAT TO OBSERVE NEXT",
                 "logs/rank_2.log:50", "NO-GO"):  # fmt: skip
        assert part in text


def test_the_keys_that_others_rely_on_are_there() -> None:
    for reading in (one_out_of_memory(), Reading()):
        told = msgspec.to_builtins(report_of(reading, SIGNATURES, ["logs"]))["incident"]
        for key in ("state", "onset", "scope", "category", "root_category", "symptom_category", "signature", "confidence",
                    "first_failure", "timeline", "hypotheses", "five_whys", "remedies", "next"):  # fmt: skip
            assert key in told
        assert {"ranks", "nodes", "confidence", "reasons"} <= set(told["culprit"])


def test_a_time_since_the_boot_is_not_put_before_everything_else() -> None:
    kernel = LogFile(index=7, path="dmesg.txt", kind="kernel", who=Who(node="node0"))
    kill = msgspec.structs.replace(hit("hardware.xid", 7, 3), time=59_644.5, about=Who(rank=1))
    dated = Reading(files=(*files(2), kernel), hits=(kill,), steps=steps(range(2), range(30)), world_size=2)
    incident = judge(dated, SIGNATURES)
    assert (incident.category, incident.recovered) == ("hardware", ())
    assert [one.time for one in incident.timeline if one.role == "confirmation"] == [None]


def test_a_rank_that_lags_behind_is_named_and_its_cause_is_not() -> None:
    lines = tuple(
        msgspec.structs.replace(
            line,
            who=Who(rank=line.file),
            values={"loss": 1.0, "compute_seconds": 0.9 if line.file == 2 else 0.1, "seconds": 1.0},
        )
        for line in steps(range(4), range(40))
    )
    incident = judge(Reading(files=files(4), steps=lines, world_size=4), SIGNATURES)
    assert (incident.state, incident.category, incident.scope) == ("slow", "cannot-tell", "rank")
    assert incident.culprit.ranks == (2,)
    assert incident.culprit.nodes == ("node1",)
    assert "rank 2" in incident.headline
    assert any("probe compute" in (one.command or "") for one in incident.next)
    even = tuple(msgspec.structs.replace(line, values={**line.values, "compute_seconds": 0.1}) for line in lines)
    assert judge(Reading(files=files(4), steps=even, world_size=4), SIGNATURES).category == "none"
