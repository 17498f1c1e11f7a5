"""Who began it where calls of some ranks, or of two, wait for one that went past them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from preflight.investigate.diagnose import diagnose
from preflight.vocabulary.incident import Incident

GLOO = "RuntimeError: [../third_party/gloo/gloo/transport/tcp/"
RECV = GLOO + "unbound_buffer.cc:78] Timed out waiting 6000ms for recv operation to complete"
SEND = GLOO + "unbound_buffer.cc:129] Timed out waiting 6000ms for send operation to complete"
CLOSED = GLOO + "pair.cc:553] Connection closed by peer [10.0.0.2]:4711"
RESET = GLOO + "pair.cc:537] Read error [10.0.0.2]:4711: Connection reset by peer"
TOO_MUCH = (
    "terminate called after throwing an instance of 'gloo::EnforceNotMet'\n"
    "  what():  [enforce fail at ../third_party/gloo/gloo/transport/tcp/pair.cc:456] op.preamble.length <= op.nbytes. 1024 vs 512"
)


def log(*, steps: int, line: int, code: str, last: str) -> str:
    """Return what a rank prints that made some steps, called from a line and gave up with a word."""
    made = "".join(f"2026-03-01 10:00:{step:02d},100 | INFO | step {step}/40 loss {3 - step / 20:.4f}\n" for step in range(1, steps))  # fmt: skip
    return made + (
        f'Traceback (most recent call last):\n  File "/workspace/train.py", line 210, in <module>\n    main()\n'
        f'  File "/workspace/train.py", line {line}, in main\n    {code}\n'
        '  File "/opt/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 3252, in all_reduce\n'
        f"    work.wait()\n{last}\n"
    )


def judged(folder: Path, logs: Mapping[int, str]) -> Incident:
    for rank, text in logs.items():
        (folder / f"rank{rank}.log").write_text(text, encoding="utf-8")
    return diagnose([str(folder)]).incident


def reduced(group: str, waiting: tuple[int, ...], world: int, *, steps: int = 9) -> dict[int, str]:
    """Return the logs of ranks of which some wait in a group's call, and the others behind it at a barrier."""
    return {
        rank: log(steps=9, line=140, code=f"dist.all_reduce(grad, group={group})", last=RECV)
        if rank in waiting
        else log(steps=steps, line=171, code="dist.barrier()", last=RECV)
        for rank in range(world)
    }


@pytest.mark.parametrize(
    ("group", "waiting", "world", "culprit"),
    [
        ("shards", (0, 4), 6, (2,)),  # every second rank: no other group of three has both
        ("shards", (4, 5, 7), 8, (6,)),
        ("tp_group", (1,), 4, (0,)),  # neighbours
        ("self.col", (1,), 4, (3,)),  # as far from each other as may be
        ("shards", (1,), 4, (0, 3)),  # one of the two
        ("shards", (0, 3), 8, ()),  # in no group of a mesh with one rank beside them
        ("dist.group.WORLD", (0, 4), 6, ()),
    ],
)
def test_the_member_of_a_group_that_went_past_its_call_is_named(
    tmp_path: Path, group: str, waiting: tuple[int, ...], world: int, culprit: tuple[int, ...]
) -> None:
    told = judged(tmp_path, reduced(group, waiting, world)).culprit
    assert (told.ranks, told.one_of) == (culprit, len(culprit) > 1)


def test_groups_of_another_direction_tell_in_which_one_a_group_lies(tmp_path: Path) -> None:
    waits = {
        1: (120, "dist.all_gather(parts, part, group=group)"),
        3: (140, "dist.all_reduce(grad, group=dp)"),
        5: (140, "dist.all_reduce(grad, group=dp)"),
    }
    logs = {}
    for rank in range(6):
        line, code = waits.get(rank, (171, "dist.barrier()"))
        logs[rank] = log(steps=9, line=line, code=code, last=RECV)
    assert judged(tmp_path, logs).culprit.ranks == (0,)  # 4 is as far, but not where groups of every second rank are


@pytest.mark.parametrize(("line", "culprit"), [(190, (1,)), (120, (0, 3))])
def test_who_had_come_further_than_a_call_of_all_ranks_left_it_out(
    tmp_path: Path, line: int, culprit: tuple[int, ...]
) -> None:
    logs = {rank: log(steps=9, line=150, code="dist.all_gather_object(all, mine)", last=RECV) for rank in (0, 2, 3)}
    logs[1] = log(steps=9, line=line, code="dist.all_reduce(grad, group=learners)", last=RECV)
    assert judged(tmp_path, logs).culprit.ranks == culprit


def test_a_group_that_a_condition_chooses_has_no_direction(tmp_path: Path) -> None:
    logs = reduced("tp if late else dp", (1,), 4)
    assert judged(tmp_path, logs).culprit.ranks == (0, 3)


def test_who_called_something_else_is_named_and_not_who_found_it_gone(tmp_path: Path) -> None:
    logs = {
        rank: log(steps=9, line=150, code="dist.broadcast(x, 0)", last=RECV if rank else CLOSED) for rank in (0, 2, 3)
    }
    logs[1] = log(steps=9, line=140, code="dist.all_reduce(x)", last=RECV)
    assert judged(tmp_path, logs).culprit.ranks == (1,)


def test_the_neighbour_of_the_one_stage_that_is_left_in_an_exchange_went_past_it(tmp_path: Path) -> None:
    logs = {rank: log(steps=9, line=171, code="dist.all_reduce(loss)", last=RECV) for rank in (1, 2, 3)}
    logs[0] = log(steps=9, line=150, code="for work in dist.batch_isend_irecv(ops): work.wait()", last=CLOSED)
    assert judged(tmp_path, logs).culprit.ranks == (1,)


def test_an_end_without_a_word_at_a_place_of_which_no_rank_is_told(tmp_path: Path) -> None:
    """Of the places of which a launcher tells alone, one says its rank nowhere; all others count from nought."""
    text = "".join(
        f"[default{rank}]:stage {rank} is up\n[default{rank}]:sent {step} of {rank}\n"
        for step in range(3)
        for rank in range(4)
    )
    for rank in (0, 1, 3):
        raised = log(steps=1, line=150, code="work.wait()", last=RECV).splitlines()
        text += "".join(f"[default{rank}]:[rank{rank}]: {line}\n" for line in raised)
    (tmp_path / "log.txt").write_text(text, encoding="utf-8")
    assert diagnose([str(tmp_path / "log.txt")]).incident.culprit.ranks == (2,)


def test_who_is_behind_since_another_left_out_a_call_is_no_suspect(tmp_path: Path) -> None:
    incident = judged(tmp_path, reduced("dp", (1,), 4, steps=10))
    assert incident.culprit.ranks == (3,)
    assert any("went past /workspace/train.py:140" in reason.text for reason in incident.culprit.reasons)


def test_who_had_not_come_as_far_left_nothing_out(tmp_path: Path) -> None:
    logs = reduced("tp", (1,), 4)
    logs[0] = log(steps=9, line=120, code="dist.broadcast(seed, 0)", last=RECV)
    assert judged(tmp_path, logs).culprit.ranks == ()


def handed(forward: str, backward: str) -> dict[int, str]:
    """Return the logs of four stages of which two wait for gradients, and two for what is handed on."""
    lines = {0: (180, backward), 1: (180, backward), 2: (150, forward), 3: (150, forward)}
    return {rank: log(steps=9, line=line, code=code, last=RECV) for rank, (line, code) in lines.items()}


@pytest.mark.parametrize(
    ("forward", "backward", "culprit"),
    [
        ("dist.recv(x, rank - 1)", "dist.recv(grad, src=rank + 1)", (1,)),
        ("x = torch.empty(4, 32); dist.recv(x, self.prev)", "dist.recv(grad, self.next)", (1,)),
        ("dist.recv(x, (rank - 1) % world)", "dist.recv(grad, (rank + 1) % world)", (1,)),
        ("dist.recv(x, sources[k])", "dist.recv(grad, targets[k])", ()),
    ],
)
def test_of_two_that_wait_for_each_other_the_one_that_had_come_further_is_named(
    tmp_path: Path, forward: str, backward: str, culprit: tuple[int, ...]
) -> None:
    assert judged(tmp_path, handed(forward, backward)).culprit.ranks == culprit


@pytest.mark.parametrize("code", ["dist.recv(x, (rank - 1) % world)", "dist.recv(x, prev_rank)"])
def test_where_nothing_tells_how_many_ranks_there_are_nobody_is_beside_another(tmp_path: Path, code: str) -> None:
    said = f'Traceback (most recent call last):\n  File "train.py", line 30, in <module>\n    {code}\n{RECV}\n'
    (tmp_path / "run.log").write_text("".join(f"[default0]:{line}\n" for line in said.splitlines()))
    assert diagnose(tmp_path).incident.culprit.ranks == ()


def test_the_one_at_which_all_waiting_ends_is_named(tmp_path: Path) -> None:
    logs = {rank: log(steps=9, line=150, code="dist.recv(x, rank - 1)", last=RECV) for rank in (1, 2, 3)}
    logs[0] = log(steps=9, line=166, code="dist.send(y, rank + 1)", last=CLOSED)
    assert judged(tmp_path, logs).culprit.ranks == (0,)


def test_who_waits_itself_in_a_call_of_all_ranks_is_not_where_the_waiting_ends(tmp_path: Path) -> None:
    logs = {rank: log(steps=9, line=150, code="dist.recv(x, rank - 1)", last=RECV) for rank in (1, 2, 3)}
    logs[0] = log(steps=9, line=166, code="dist.all_reduce(loss)", last=RECV)
    assert not any("is where the waiting" in reason.text for reason in judged(tmp_path, logs).culprit.reasons)


def test_the_one_that_says_nothing_and_of_which_one_line_tells_that_it_waits_for_it(tmp_path: Path) -> None:
    said = {0: ("dist.send(x, b)", SEND), 2: ("dist.recv(x, rank - 1)", RECV), 3: ("dist.send(x, b)", SEND)}
    lines = [log(steps=1, line=150, code=code, last=last).splitlines() for code, last in said.values()]
    text = "".join(f"[rank{rank}]: {line}\n" for rank, mine in zip(said, lines, strict=True) for line in mine)
    (tmp_path / "log.txt").write_text(text, encoding="utf-8")
    assert diagnose([str(tmp_path / "log.txt")]).incident.culprit.ranks == (1,)


def test_who_hands_over_more_than_is_asked_for_is_named_and_the_sizes_are_the_symptom(tmp_path: Path) -> None:
    made = log(steps=9, line=1, code="", last="").partition("Traceback")[0]
    incident = judged(tmp_path, {
        0: log(steps=9, line=180, code="dist.recv(grad, rank + 1)", last=CLOSED),
        1: log(steps=9, line=155, code="dist.send(y, rank + 1)", last=RESET),
        2: made + TOO_MUCH + "\n",
        3: log(steps=9, line=150, code="dist.recv(x, rank - 1)", last=CLOSED),
    })  # fmt: skip
    assert incident.culprit.ranks == (1,)
    assert incident.culprit.confidence <= 0.5
    assert incident.signature == "network.invalid-gloo-scalar"


@pytest.mark.parametrize(("reset", "culprit"), [(1, 1), (3, 3), (None, 1)])
def test_who_finds_its_connection_reset_handed_over_what_was_too_much(
    tmp_path: Path, reset: int | None, culprit: int
) -> None:
    code = "for work in dist.batch_isend_irecv(ops): work.wait()"
    logs = {rank: log(steps=9, line=150, code=code, last=RESET if rank == reset else CLOSED) for rank in (0, 1, 3)}
    logs[2] = log(steps=9, line=1, code="", last="").partition("Traceback")[0] + TOO_MUCH + "\n"
    assert judged(tmp_path, logs).culprit.ranks == (culprit,)
