from __future__ import annotations

import os
import pickle
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preflight.source.dumps.pickled import unpickle

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=20)
    | st.binary(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4) | st.tuples(inner, inner)
    ),
    max_leaves=20,
)
ENTRIES = {"version": "2.9", "entries": [{"record_id": n, "frames": [{"name": f"f{n}", "line": n}]} for n in range(50)]}


@settings(max_examples=200, deadline=None)
@given(value=PLAIN, protocol=st.integers(2, 5))
def test_plain_values_come_back(value: Any, protocol: int) -> None:
    got = unpickle(pickle.dumps(value, protocol))
    if got.refused is None:  # Python before protocol 3 writes bytes as a call
        assert got.problem is None
        assert got.value == value
    else:
        assert protocol == 2


@pytest.mark.parametrize("protocol", [0, 1])
def test_old_protocols_are_read(protocol: int) -> None:
    value = {"a": [1, -2, 3.5, None, True, False, "x", (1, 2)], "b": 10**12}
    assert unpickle(pickle.dumps(value, protocol)).value == value


class Evil:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("protocol", range(6))
def test_what_a_pickle_would_run_is_named_and_not_run(tmp_path: Path, protocol: int) -> None:
    target = tmp_path / "made"
    got = unpickle(pickle.dumps({"version": "2.9", "entries": [Evil(target)]}, protocol))
    assert not target.exists()
    assert got.value is None
    assert got.refused is not None
    assert "mkdir" in got.refused


def test_every_prefix_gives_a_problem_and_what_stood_before_it() -> None:
    data = pickle.dumps(ENTRIES, 2)
    whole = 0
    for end in range(0, len(data), 3):
        got = unpickle(data[:end])
        assert got.problem is not None
        entries = got.value.get("entries", []) if isinstance(got.value, dict) else []
        good = [one for one in entries if isinstance(one, dict) and one in ENTRIES["entries"]]
        whole = max(whole, len(good))
    assert whole >= 49


@settings(max_examples=300, deadline=None)
@given(data=st.binary(max_size=200))
def test_junk_never_raises(data: bytes) -> None:
    assert unpickle(b"\x80\x02" + data) is not None


@pytest.mark.parametrize(
    "bomb",
    [
        b"\x80\x05\x96" + struct.pack("<Q", 1 << 40) + b".",  # a byte array of a terabyte
        b"\x80\x02]r\xff\xff\xff\xff.",  # a memo of four thousand million places
        b"\x80\x02\x8b" + struct.pack("<I", 1 << 30) + b"\x01" * 64 + b".",
        b"\x80\x02X" + struct.pack("<I", 0xFFFFFFFF) + b"a.",
        b"\x80\x02" + b"(" * 100_000,
        b"\x80\x02" + b"]" + b"2a" * 50_000,
    ],
)
def test_bombs_cost_nothing(bomb: bytes) -> None:
    assert unpickle(bomb) is not None
