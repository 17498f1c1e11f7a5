"""Lines that a container's or a program's logger wraps in JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import ClassVar

import pytest

from preflight.source.logs import read_logs
from preflight.source.logs.prefixes import head_of
from preflight.source.logs.wrapped import unwrapped

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
TRACE = ["Traceback (most recent call last):", '  File "/app/a.py", line 3, in f', OOM]


def test_a_traceback_in_the_log_of_a_container_is_read(tmp_path: Path) -> None:
    rows = [
        {"log": line + "\n", "stream": "stderr", "time": f"2024-01-01T12:00:0{n}.5Z"} for n, line in enumerate(TRACE)
    ]
    (tmp_path / "c-json.log").write_text("".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows))
    reading = read_logs([tmp_path])
    (raised,) = reading.raised
    assert (raised.exception, [frame.line for frame in raised.frames]) == ("torch.OutOfMemoryError", [3])
    assert [(hit.line, (hit.time or 0) % 60) for hit in reading.hits] == [(3, 2.5)]


def test_a_rank_and_a_level_beside_the_message_are_read() -> None:
    head = head_of(unwrapped('{"ts": 1706702400.25, "level": "error", "rank": 5, "msg": "boom"}'))
    assert (head.who.rank, head.level) == (5, "ERROR")
    assert head.stamp is not None
    assert head.stamp.seconds == pytest.approx(1706702400.25)


@pytest.mark.parametrize(
    "text", ['{"step": 3, "loss": 2.5}', '{"message": 3}', '{"log": "cut of', "{'loss': 2.5}", "", '{"log":{"a":1}}']
)
def test_what_is_not_wrapped_stays(text: str) -> None:
    assert unwrapped(text) == text


@pytest.mark.parametrize("label", ["[default1]:", "worker-1  | ", "[1,2]<stderr>:", "gpu-1: [default0]:", "3: "])
def test_what_a_launcher_puts_before_it_stays(label: str) -> None:
    text = unwrapped(label + '{"ts": "2026-11-22T10:00:00", "level": "error", "msg": "boom"}')
    assert text == f"{label}2026-11-22T10:00:00 ERROR boom"


def test_an_event_within_an_event_and_its_machine_are_kept() -> None:
    inner = {"node": "gpu-7", "message": "it fell", "code": 79}
    row = {"msg": "health event", "host": "agent-0", "local_rank": 3, "found": {"event": inner}}
    head = head_of(text := unwrapped(json.dumps(row)))
    assert (head.who.node, head.who.local_rank) == ("gpu-7", 3)
    assert text[head.end :] == "health event " + json.dumps(inner, separators=(",", ":"))


def test_pairs_of_names_and_values_are_read_as_a_label_and_a_message() -> None:
    line = 'time=2026-03-04T05:06:07.25Z level=error rank=5 host=cn7 msg="File \\"/job/train.py\\", line 7" step=12 loss=2.5'
    text = unwrapped(line)
    head = head_of(text)
    assert (head.who.rank, head.who.node) == (5, "cn7")
    assert head.stamp is not None
    assert text.endswith('File "/job/train.py", line 7 step=12 loss=2.5')


@pytest.mark.parametrize(
    "text",
    [
        "time=0.25 loss=2.5 step=12",
        "level=3 of the tree, message follows",
        'ts=4 log="a" event=done',
        "t=12 msg",
    ],
)
def test_pairs_without_a_message_stay(text: str) -> None:
    assert unwrapped(text) == text


def test_ranks_are_told_by_the_pairs_of_their_lines(tmp_path: Path) -> None:
    pair = 'time=2026-03-04T05:06:{:02d}Z level=info rank={} msg="{}"\n'
    lines = [pair.format(second, rank, f"step {second} loss 1.{second}") for second in range(6) for rank in range(3)]
    raised = (
        "Traceback (most recent call last):",
        '  File \\"/job/train.py\\", line 7, in step',
        "ValueError: no such label",
    )
    lines += [pair.format(9, 2, says) for says in raised]
    (tmp_path / "all.log").write_text("".join(lines))
    reading = read_logs([str(tmp_path)])
    assert {one.who.rank for one in reading.steps} == {0, 1, 2}
    assert [(one.hit.who.rank, one.exception) for one in reading.raised] == [(2, "ValueError")]


@pytest.mark.parametrize(
    "line",
    [
        '{{"ts": "2026-03-04T05:06:{:02d}Z", "rank": {}, "message": "tick of the run"}}\n',
        'time=2026-03-04T05:06:{:02d}Z level=info rank={} msg="tick of the run"\n',
    ],
)
def test_who_speaks_in_wrapped_lines_is_known_also_where_nothing_is_found_in_them(line: str, tmp_path: Path) -> None:
    (tmp_path / "all.log").write_text("".join(line.format(second, rank) for second in range(6) for rank in range(3)))
    assert {(one.who.rank, one.lines) for one in read_logs([str(tmp_path)]).spoke} == {(0, 6), (1, 6), (2, 6)}


@pytest.mark.parametrize(
    ("line", "rank"),
    [
        ('level=info rank=3 msg="step done"', 3),
        ('level=info msg="step done" local_rank=1 rank=5 step=4', 5),
        ('level=info msg="adapter built" rank=16 alpha=32', None),
        ("ts=2026-03-04T05:06:07Z level=info msg=hit rank=2 score=0.4", None),
    ],
)
def test_a_rank_behind_the_message_alone_is_not_that_of_the_writer(line: str, rank: int | None) -> None:
    text = unwrapped(line)
    assert head_of(text).who.rank == rank
    assert rank is not None or "rank=" in text


@pytest.mark.parametrize(
    "row",
    [
        {
            "ts": "2026-11-28T00:15:08Z",
            "level": "info",
            "rank": 2,
            "msg": "train",
            "step": 7,
            "loss": 2.5,
            "data_ms": 12,
        },
        {
            "time": "2026-11-28T00:15:08Z",
            "rank": 2,
            "message": "train",
            "metrics": {"step": 7, "loss": 2.5, "data_ms": 12},
        },
    ],
)
def test_the_numbers_of_a_step_beside_its_message_are_read(row: dict[str, object], tmp_path: Path) -> None:
    (tmp_path / "job.log").write_text("".join(json.dumps({**row, "rank": rank}) + "\n" for rank in (0, 1, 2)))
    reading = read_logs([tmp_path])
    assert [(one.who.rank, one.step, one.values["loss"]) for one in reading.steps] == [(r, 7, 2.5) for r in (0, 1, 2)]
    assert {one.values["data_seconds"] for one in reading.steps} == {0.012}


def test_numbers_beside_a_message_that_are_of_no_step_stay_away() -> None:
    assert unwrapped('{"msg": "listening", "port": 29500, "level": "info"}') == "INFO listening"


class TestTheJournalInJSON:
    ENTRY: ClassVar[dict[str, str]] = {
        "__CURSOR": "s=1f;i=2a",
        "__REALTIME_TIMESTAMP": "1795825303212628",
        "_HOSTNAME": "cn07",
        "_PID": "4411",
        "SYSLOG_IDENTIFIER": "torchrun",
        "MESSAGE": "[rank3]: ValueError: bad label",
    }

    def test_the_host_the_process_and_the_time_are_read(self) -> None:
        head = head_of(text := unwrapped(json.dumps(self.ENTRY)))
        assert (head.who.node, head.who.pid, head.who.rank) == ("cn07", 4411, 3)
        assert head.stamp is not None
        assert head.stamp.seconds == pytest.approx(1795825303.212628)
        assert text[head.end :] == "ValueError: bad label"

    def test_what_it_writes_as_bytes_is_text(self) -> None:
        text = unwrapped(json.dumps({**self.ENTRY, "MESSAGE": list(b"\x1b[31mboom\x1b[0m")}))
        assert text.endswith("boom")

    def test_an_entry_without_a_message_stays(self) -> None:
        text = json.dumps({**self.ENTRY, "MESSAGE": None})
        assert unwrapped(text) == text


@pytest.mark.parametrize(
    "fields",
    [
        {"process_index": 2},
        {"dist_rank": "2"},
        {"labels": {"torch.rank": 2}},
        {"ctx": {"worker": {"global_rank": 2}}, "ordinal": 9},
        {"labels": {"job.task_index": "2", "zone": "b"}},
    ],
)
def test_a_rank_is_known_by_whatever_a_logger_calls_it(fields: dict[str, object]) -> None:
    row = {"Timestamp": 1706702400250000000, "lvl": "warn", **fields, "Body": "boom"}
    head = head_of(unwrapped(json.dumps(row)))
    assert head.who.rank == 2
    assert head.stamp is not None
    assert head.stamp.seconds == pytest.approx(1706702400.25)


@pytest.mark.parametrize(
    "fields", [{"index": 2}, {"lora_rank": 8}, {"worker_rank": 1, "trainer_rank": 2}, {"rank": -1}]
)
def test_no_rank_is_taken_from_what_may_be_something_else(fields: dict[str, object]) -> None:
    assert head_of(unwrapped(json.dumps({"ts": 1706702400.25, **fields, "msg": "boom"}))).who.rank is None


def test_a_row_of_data_with_a_text_is_no_line_of_a_logger() -> None:
    row = json.dumps({"id": 3, "text": "a sentence", "rank": 2})
    assert unwrapped(row) == row


def test_pairs_behind_what_is_said_are_read_as_labels() -> None:
    head = head_of(text := unwrapped("2026-03-04T05:06:07.25Z [error    ] the decoder gave up   rank=3 shard=7"))
    assert (head.who.rank, head.level) == (3, "ERROR")
    assert "the decoder gave up" in text[head.end :]


def test_pairs_within_pairs_are_each_looked_at_once() -> None:
    address = "url=/read?part=1" + "&part=1" * 60
    row = f"2026-03-04T05:06:07.25Z [error    ] refused {address} for good"
    assert unwrapped(row) == row  # a search that tried each way to part them would never end
    head = head_of(unwrapped(f"2026-03-04T05:06:07.25Z [error    ] refused   {address} rank=3"))
    assert (head.who.rank, head.level) == (3, "ERROR")
