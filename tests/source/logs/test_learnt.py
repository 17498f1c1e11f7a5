"""Labels that are learnt from the lines of a file: any logger's format, and none where nothing tells writers apart."""

from __future__ import annotations

import random

import pytest

from preflight.source.logs.label_forms import LEARNT
from preflight.source.logs.owners import owner_of
from preflight.source.logs.prefixes import head_of
from preflight.source.logs.styles import style_of
from preflight.vocabulary.log import Who

_SAID = ("building the model", "process group is ready", "loading the shards", "first batch read")


def _lines(form: str, ranks: int = 4, seed: int = 3) -> list[str]:
    """Return what several ranks print, each round in another order."""
    order = random.Random(seed)
    lines = []
    rounds = [*_SAID, *(f"step {step} loss {2 - step / 50:.3f}" for step in range(0, 24, 2))]
    for second, said in enumerate(rounds):
        for rank in order.sample(range(ranks), ranks):
            time = f"10:{second // 60:02d}:{second % 60:02d}"
            lines.append(
                form.format(
                    rank=rank, node=f"cx-{11 + rank // 2 * 6}", local=rank % 2, time=time, said=said, pid=900 + rank
                )
            )
    return lines


def _style(lines: list[str]) -> str:
    return style_of("\n".join([*lines, ""]).encode())


@pytest.mark.parametrize(
    "form",
    [
        "{time} ({rank}/4) {said}",
        "{time} | INFO    | dp_rank={rank} | {said}",
        "1795837194.{rank}41 trainer-{rank} {said}",
        "I {time} {pid} loop.py:88] <{rank}> {said}",
        "T{rank} {time} {said}",
        '{{app="pretrain", pod="pretrain-{rank}"}} {said}',
        "INFO {time} unit {rank} of 4: {said}",
    ],
)
def test_the_rank_is_found_in_the_field_that_tells_writers_apart(form: str) -> None:
    lines = _lines(form)
    style = _style(lines)
    assert style.startswith(LEARNT)
    for rank in range(4):
        line = form.format(rank=rank, time="11:59:59", said="something else happened", pid=77)
        head = head_of(line, style)
        assert head.who.rank == rank
        assert line[head.end :].strip(" :|") == "something else happened"


@pytest.mark.parametrize(
    "form",
    [
        "{time} {node} card{local} {said}",
        "{time} - job@{node}#{local} - {said}",
        "<{node}:{local}> {said}",
        "{time} card={local} host={node} :: {said}",
    ],
)
def test_a_machine_and_a_place_on_it_are_found(form: str) -> None:
    lines = _lines(form)
    style = _style(lines)
    assert style.startswith(LEARNT)
    told = {(who.node, who.local_rank, who.rank) for who in (head_of(line, style).who for line in lines)}
    assert told == {("cx-11", 0, None), ("cx-11", 1, None), ("cx-17", 0, None), ("cx-17", 1, None)}


@pytest.mark.parametrize(
    ("form", "raw"),
    [("{time} - job@{node}#{local} - {said}", "job@{node}#{local} - "), ("{time} <{rank}> {said}", "<{rank}> ")],
)
def test_a_label_that_is_known_by_itself_needs_no_time_before_it(form: str, raw: str) -> None:
    style = _style(_lines(form))
    label = raw.format(node="cx-17", local=1, rank=1)
    assert (
        head_of(f"{label}KeyError: 'image'", style).who
        == head_of(form.format(time="10:00:00", node="cx-17", local=1, rank=1, said="x"), style).who
        != Who()
    )


@pytest.mark.parametrize("form", ["{time} ({rank}/4) {said}", "{time} {rank} {said}", "{time} unit {rank}: {said}"])
def test_a_number_that_may_be_anything_is_no_label_without_its_time(form: str) -> None:
    style = _style(_lines(form))
    assert style.startswith(LEARNT)
    said = form.format(time="", rank=1, said="of two").strip()
    assert head_of(said, style).who == Who()


def test_the_ranks_of_one_node_need_not_begin_at_nought() -> None:
    lines = [line for line in _lines("{time} unit={rank} {said}", ranks=8) if "unit=4" in line or "unit=5" in line]
    style = _style(lines)
    assert {head_of(line, style).who.rank for line in lines} == {4, 5}


def test_a_time_that_is_left_out_where_it_is_the_same_hides_no_label() -> None:
    lines = [
        line if at % 3 == 0 else " " * 10 + line[10:]
        for at, line in enumerate(_lines("[{time}] INFO     unit={rank} {said}"))
    ]
    style = _style(lines)
    assert [head_of(line, style).who.rank for line in lines] == [int(line.split("unit=")[1][0]) for line in lines]


@pytest.mark.parametrize(
    "form",
    [
        "{time} layer {at} of 4: weights of the process group loaded",
        "{time} epoch {at} begins, world_size 4",
        "{time} expert {odd}: tokens routed, world_size 4",
        "{time} item {at} read by the process group",
        "{time} process group of one rank: value {once} seen",
    ],
)
def test_counters_and_loops_are_no_writers(form: str) -> None:
    order = random.Random(1)
    lines = [form.format(time=f"10:00:{at:02d}", at=at % 4, odd=order.randrange(4), once=at) for at in range(40)]
    assert not _style(lines).startswith(LEARNT)


def test_a_number_that_goes_with_what_is_said_is_no_writer() -> None:
    order = random.Random(2)
    words = ("queue of the process group", "cache of weights", "store of keys", "pool of workers")
    lines = [f"10:00:{at:02d} part-{(one := order.randrange(4))} {words[one]} is full" for at in range(40)]
    assert not _style(lines).startswith(LEARNT)


def _with_words(label: str, *, labelled: bool) -> list[str]:
    """Return lines of one program that numbers something, and tells of its ranks in lines with or without such a number."""
    order = random.Random(5)
    heads = ("torch.distributed is ready, world_size 4", "wrapped in DistributedDataParallel", "NCCL version 2.21")
    says = ("read {} samples", "waits {} ms")
    lines = [f"10:00:00 INFO {label.format(at) + ' ' if labelled else ''}{head}" for at, head in enumerate(heads)]
    for at in range(40):
        said = order.choice(says).format(order.randrange(10, 99))
        lines.append(f"10:00:{at:02d} INFO {label.format(order.randrange(4))} {said}")
    return lines


@pytest.mark.parametrize("label", ["[loader {}]", "cuda:{}", "<{}>", "machine-{}", "node {}"])
def test_what_one_program_numbers_is_no_writer_where_others_tell_of_its_ranks(label: str) -> None:
    assert not _style(_with_words(label, labelled=False)).startswith(LEARNT)
    assert _style(_with_words(label, labelled=True)).startswith(LEARNT)


@pytest.mark.parametrize("word", ["queue", "camera", "comm", "pool"])
def test_what_a_program_counts_is_no_writer_whatever_its_lines_tell_of(word: str) -> None:
    assert not _style(_with_words(word + " {}", labelled=True)).startswith(LEARNT)


@pytest.mark.parametrize("text", ["RuntimeError: shapes differ", "torch.OutOfMemoryError: no memory", "ERROR: no data"])
def test_neither_an_exception_nor_a_level_is_a_host(text: str) -> None:
    assert head_of(text, "hosts").who == Who()
    assert head_of("cx-11: " + text, "hosts").who.node == "cx-11"


def test_the_owner_of_a_file_is_the_one_whom_all_its_labels_name() -> None:
    lines = ["Nov 02 10:00:01 cx-11 train[77]: ready", "Traceback (most recent call last):", "ValueError: no such key"]
    assert owner_of("\n".join(lines).encode(), "") == Who(node="cx-11")
    more = [*lines, "Nov 02 10:00:02 cx-17 train[78]: ready"]
    assert owner_of("\n".join(more).encode(), "") is None
    assert owner_of(b"[rank 0] ready\nValueError: no such key\n", "") is None  # the others may bear no label
