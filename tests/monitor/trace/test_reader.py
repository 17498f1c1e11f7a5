"""Blocks: what is written is read, and what is damaged is named while the rest is read."""

from __future__ import annotations

import random
import zlib
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from preflight.errors import TraceError
from preflight.monitor.collect.columns import HEAD, MAGIC, TABLES
from preflight.monitor.collect.encode import block, payload
from preflight.monitor.trace.reader import Block, Damage, Reader, decode, is_segment

from ..rows import ODD_ROWS, ROWS, call, same

Row = tuple[str, tuple[Any, ...]]
QUICK = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


def _rows(blocks: list[Block]) -> list[Row]:
    return [
        (kind, row)
        for block_ in blocks
        for kind, columns in block_.tables.items()
        for row in zip(*columns.values(), strict=True)
    ]


def _read(path: Path) -> tuple[list[Block], list[Damage]]:
    reader = Reader(path)
    blocks = list(reader.poll())
    reader.finish()
    return blocks, reader.damage


@QUICK
@given(st.lists(ROWS, max_size=12))
def test_rows_of_the_declared_types_come_back_as_they_were(rows: list[Row]) -> None:
    tables = decode(block(payload(rows))[HEAD:])
    for kind in TABLES:
        written = [row for name, row in rows if name == kind]
        columns = tables.get(kind, {name: [] for name in TABLES[kind]})
        assert list(columns) == list(TABLES[kind])
        read = list(zip(*columns.values(), strict=True))
        assert len(read) == len(written)
        for column, got in columns.items():
            at = list(TABLES[kind]).index(column)
            assert same(got, [row[at] for row in written]), column


@settings(QUICK, max_examples=25)
@given(st.lists(ODD_ROWS, max_size=12))
def test_rows_of_other_types_come_back_too(rows: list[Row]) -> None:
    tables = decode(block(payload(rows))[HEAD:])
    for kind, columns in tables.items():
        written = [row for name, row in rows if name == kind]
        for at, (column, declared) in enumerate(TABLES[kind].items()):
            if declared == "float":
                wanted = [float(v) if type(v) is int and abs(v) < 2**53 else v for v in (row[at] for row in written)]
            else:
                wanted = [row[at] for row in written]
            assert same(columns[column], wanted), column


@pytest.mark.parametrize("count", [1, 2, 5, 100])
def test_a_column_in_a_short_form_is_the_same_column(count: int) -> None:
    rows = [("call", call(q, i=q // 50, name=("forward", "step")[q % 2])) for q in range(count)]
    content = payload(rows)
    assert _rows([Block(0, 0, 0, decode(zlib.compress(content)))]) == rows
    if count == 100:
        assert len(content) < 20 * count


def test_a_row_of_the_wrong_length_is_filled_or_cut() -> None:
    tables = decode(block(payload([("trouble", (1, 2)), ("trouble", (3, 4, "here", "why", "more"))]))[HEAD:])
    assert list(zip(*tables["trouble"].values(), strict=True)) == [(1, 2, None, None), (3, 4, "here", "why")]


def test_only_wanted_kinds_are_decoded(tmp_path: Path) -> None:
    path = tmp_path / "rank-00000.1.trace"
    path.write_bytes(block(payload([("call", call(1)), ("trouble", (2, 0, "here", "why"))])))
    (only,) = Reader(path, frozenset({"trouble"})).poll()
    assert list(only.tables) == ["trouble"]
    assert only.rows == 1


def _file(blocks: int, seed: int = 0) -> tuple[bytes, list[int]]:
    """A file of several blocks and where each of them ends."""
    data, ends = b"", []
    random_ = random.Random(seed)
    for number in range(blocks):
        rows = [("call", call(10 * number + at, i=number)) for at in range(random_.randrange(1, 9))]
        data += block(payload(rows))
        ends.append(len(data))
    return data, ends


def test_a_file_cut_at_any_byte_gives_every_whole_block_and_names_the_rest(tmp_path: Path) -> None:
    data, ends = _file(3)
    path = tmp_path / "rank-00000.1.trace"
    for cut in range(len(data) + 1):
        path.write_bytes(data[:cut])
        blocks, damage = _read(path)
        whole = [end for end in ends if end <= cut]
        last = whole[-1] if whole else 0
        assert [block_.end for block_ in blocks] == whole
        assert damage == ([Damage(last, cut, "the last block is cut")] if cut > last else [])


def test_a_byte_changed_anywhere_costs_one_block_and_is_named(tmp_path: Path) -> None:
    data, ends = _file(3)
    starts = [0, *ends[:-1]]
    path = tmp_path / "rank-00000.1.trace"
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 1 << at % 8
        path.write_bytes(changed)
        hit = next(number for number, end in enumerate(ends) if at < end)
        if hit == 0 and at == 3:
            continue  # the digit of the format: see below
        blocks, damage = _read(path)
        assert [block_.start for block_ in blocks] == [start for number, start in enumerate(starts) if number != hit]
        (lost,) = damage
        assert (lost.start, lost.end) == (starts[hit], ends[hit])


@QUICK
@given(st.data())
def test_whatever_happens_to_the_bytes_is_read_without_an_error(tmp_path: Path, data: st.DataObject) -> None:
    content, ends = _file(3, data.draw(st.integers(0, 5)))
    kind = data.draw(st.sampled_from(["insert", "remove", "overwrite"]))
    at = data.draw(st.integers(1, len(content)))
    length = data.draw(st.integers(1, 40))
    noise = data.draw(st.binary(min_size=length, max_size=length))
    after = {"insert": content[at:], "remove": content[at + length :], "overwrite": content[at + length :]}[kind]
    path = tmp_path / "rank-00000.1.trace"
    path.write_bytes(content[:at] + (b"" if kind == "remove" else noise) + after)
    blocks, damage = _read(path)
    size = path.stat().st_size
    covered = sorted([(b.start, b.end) for b in blocks] + [(d.start, d.end) for d in damage])
    assert [start for start, _ in covered] == [0, *(end for _, end in covered)][: len(covered)]
    assert (covered[-1][1] if covered else 0) == size
    assert sum(end <= at for end in ends) <= len(blocks)


def test_zeros_behind_a_magic_are_no_block(tmp_path: Path) -> None:
    content, ends = _file(3)
    path = tmp_path / "rank-00000.1.trace"
    path.write_bytes(content[:4] + bytes(8) + content[4:])
    blocks, damage = _read(path)
    assert [block_.start for block_ in blocks] == [end + 8 for end in ends[:-1]]
    (lost,) = damage
    assert (lost.start, lost.end) == (0, ends[0] + 8)


def test_a_growing_file_gives_each_block_once_and_a_cut_one_waits(tmp_path: Path) -> None:
    data, ends = _file(5)
    path = tmp_path / "rank-00000.1.trace"
    path.write_bytes(b"")
    reader, seen = Reader(path), []
    for start in range(0, len(data), 7):
        with path.open("ab") as stream:
            stream.write(data[start : start + 7])
        seen += [block_.end for block_ in reader.poll()]
        assert seen == [end for end in ends if end <= start + 7]
    reader.finish()
    assert seen == ends
    assert not reader.damage


def test_a_damaged_block_in_a_growing_file_is_passed_when_the_next_is_whole(tmp_path: Path) -> None:
    data, ends = _file(3)
    changed = bytearray(data)
    changed[ends[0] + 6] = 0xFF  # its length: more than the file holds
    path = tmp_path / "rank-00000.1.trace"
    reader = Reader(path)
    path.write_bytes(changed[: ends[1]])
    assert [block_.number for block_ in reader.poll()] == [0]
    assert not reader.damage
    path.write_bytes(changed)
    assert [block_.end for block_ in reader.poll()] == [ends[2]]
    assert [(part.start, part.end) for part in reader.damage] == [(ends[0], ends[1])]


def test_the_magic_inside_a_damaged_payload_is_not_a_block(tmp_path: Path) -> None:
    data, ends = _file(2)
    changed = bytearray(data)
    changed[HEAD + 4 : HEAD + 4 + len(MAGIC)] = MAGIC
    path = tmp_path / "rank-00000.1.trace"
    path.write_bytes(changed)
    blocks, damage = _read(path)
    assert [block_.start for block_ in blocks] == [ends[0]]
    assert [(part.start, part.end) for part in damage] == [(0, ends[0])]


@pytest.mark.parametrize("replaced", [1, 2])
def test_an_end_in_the_place_of_the_last_blocks_is_read(tmp_path: Path, replaced: int) -> None:
    data, ends = _file(4)
    path = tmp_path / "rank-00000.1.trace"
    path.write_bytes(data)
    reader = Reader(path)
    assert len(list(reader.poll())) == 4
    last = block(payload([("trouble", (1, 2, "writer", "x" * 10))]))
    kept = ends[3 - replaced]
    assert len(last) < len(data) - kept
    path.write_bytes(data[:kept] + last)
    assert [list(block_.tables) for block_ in reader.poll()] == [["trouble"]]
    assert not reader.damage
    assert reader.offset == kept + len(last)


def test_a_file_that_became_shorter_is_said_to_be(tmp_path: Path) -> None:
    data, ends = _file(3)
    path = tmp_path / "rank-00000.1.trace"
    path.write_bytes(data)
    reader = Reader(path)
    assert len(list(reader.poll())) == 3
    path.write_bytes(data[: ends[0] - 1])
    assert not list(reader.poll())
    assert [(part.start, part.end) for part in reader.damage] == [(ends[0] - 1, ends[2])]


@pytest.mark.parametrize(
    "content",
    [
        *(b"no", b"[]", b"{}", b'{"tables":[]}'),
        *(b'{"tables":{"call":{"q":[1],"e":[]}}}', b'{"tables":{"call":{"q":3}}}'),
        b'{"tables":{"call":{"name":{"words":["a"],"at":[1]}}}}',
        b'{"tables":{"call":{"name":{"words":["a"],"at":[-1]}}}}',
        *(b'{"tables":{"state":{"bits":{"ints":["AAA"]}}}}', b'{"tables":{"state":{"norm":{"floats":["AAAA"]}}}}'),
        b'{"tables":{"state":{"norm":{"floats":[{"at":[3],"of":""}]}}}}',
        b'{"tables":{"call":{"name":{"all":1,"n":99999999999}}}}',
    ],
)
def test_a_whole_block_that_holds_no_table_is_damage(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "rank-00000.1.trace"
    good = block(payload([("call", call(1))]))
    path.write_bytes(block(content) + good)
    blocks, damage = _read(path)
    assert [block_.rows for block_ in blocks] == [0, 1]
    (lost,) = damage
    assert lost.end == blocks[0].end
    assert "no table" in lost.reason


def test_a_newer_format_is_refused_and_another_file_is_no_segment(tmp_path: Path) -> None:
    path = tmp_path / "rank-00000.1.trace"
    path.write_bytes(block(payload([("call", call(1))])).replace(MAGIC, b"PFB2", 1))
    assert is_segment(path)
    with pytest.raises(TraceError, match="format 2") as raised:
        list(Reader(path).poll())
    assert raised.value.hint
    path.write_bytes(b"PK\x03\x04 something else")
    assert not is_segment(path)
    assert _read(path) == ([], [Damage(0, 19, "no block begins here")])
    with pytest.raises(TraceError, match="cannot be read"):
        list(Reader(tmp_path / "missing").poll())


def test_a_file_without_blocks_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "rank-00000.1.trace"
    path.write_bytes(b"")
    assert is_segment(path)
    assert _read(path) == ([], [])


def test_equal_words_of_different_blocks_are_one_object(tmp_path: Path) -> None:
    path = tmp_path / "rank-00000.1.trace"
    rows = [("call", call(q, name=("forward", "step", "fetch")[q % 3])) for q in range(30)]
    path.write_bytes(block(payload(rows)) + block(payload(rows)))
    one, two = Reader(path).poll()
    assert {id(name) for name in chain(one.tables["call"]["name"], two.tables["call"]["name"])} == {
        id(name) for name in one.tables["call"]["name"][:3]
    }
