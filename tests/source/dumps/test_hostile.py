"""What is cut off, damaged or junk never breaks a reader: it gives what can be read, or the problem."""

from __future__ import annotations

import json
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preflight.source.dumps.opening import format_of, formats, read_dump
from preflight.source.dumps.part import Part
from preflight.vocabulary.log import LogFile

from .test_devices import DIAGNOSIS, IBSTAT, PERFQUERY, QUERY, RAS, TABLE, TOPOLOGY
from .test_environment_list import COLLECTED, FROZEN, VARIABLES
from .test_error_file import PYTHON
from .test_kernel_log import BOOT, OOM, XID
from .test_schedulers import COLUMNS, DESCRIPTION, EVENTS, JOB, NODE, PIPES, PODS
from .test_stack_dump import FAULT, GDB, PYSPY, PYSTACK

CALL = {
    "record_id": 1,
    "pg_id": 0,
    "process_group": ("0", "x"),
    "collective_seq_id": 1,
    "profiling_name": "nccl:all_reduce",
    "frames": [{"name": "f", "filename": "a.py", "line": 1}],
}
DUMP = {
    "version": "2.9",
    "pg_config": {"0": {"ranks": "[0, 1]"}},
    "pg_status": {"0": {"last_enqueued_collective": 1}},
    "entries": [CALL],
}
TEXTS = (
    QUERY,
    TABLE,
    TOPOLOGY,
    IBSTAT,
    PERFQUERY,
    RAS,
    COLLECTED,
    VARIABLES,
    FROZEN,
    BOOT + XID,
    OOM,
    PIPES,
    COLUMNS,
    JOB,
    NODE,
    EVENTS,
    DESCRIPTION,
    PYSPY,
    FAULT,
    PYSTACK,
    GDB,
)
SAMPLES = [
    *(text.encode() for text in TEXTS),
    *(json.dumps(value).encode() for value in (DIAGNOSIS, PYTHON, PODS, DUMP)),
    pickle.dumps(DUMP, 2),
    pickle.dumps(DUMP, 5),
]  # fmt: skip


def test_every_sample_has_a_reader() -> None:
    assert [content[:40] for content in SAMPLES if format_of("nccl_trace_rank_0", content) is None] == []


@settings(max_examples=400, deadline=None)
@given(data=st.data())
def test_a_damaged_file_gives_a_part_and_no_error(data: st.DataObject) -> None:
    content = bytearray(data.draw(st.sampled_from(SAMPLES)))
    for _ in range(data.draw(st.integers(0, 6))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at : at + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=5))
        if not content:
            break
    damaged = bytes(content[: data.draw(st.integers(0, len(content)))])
    module = format_of("nccl_trace_rank_0", damaged)
    if module is not None:
        part = read_dump(module, damaged, LogFile(index=0, path="x", kind=module.KIND))
        assert isinstance(part, Part)
        # What the reader itself did not see coming is told apart from what it found wrong.
        assert part.problem is None or "not readable as" not in part.problem, part.problem


@settings(max_examples=100, deadline=None)
@given(junk=st.binary(max_size=300))
@pytest.mark.parametrize("module", formats(), ids=lambda module: module.__name__.rpartition(".")[2])
def test_junk_breaks_no_reader(module: object, junk: bytes) -> None:
    assert module.looks_like("x", junk) in (True, False)  # type: ignore[attr-defined]
    assert isinstance(read_dump(module, junk, LogFile(index=0, path="x", kind="text")), Part)  # type: ignore[arg-type]
