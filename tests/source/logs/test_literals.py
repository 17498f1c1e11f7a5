"""Every engine finds the same literals at the same places."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preflight.source.logs.literals import Finder

WORDS = (
    b"loss",
    b"oss: nan",
    b"\nE0",
    b"CUDA out of memory",
    b"out of memory",
    b"Error:",
    b"RuntimeError: CUDA",
    b"a.b*c",
)


def _everywhere(buffer: bytes) -> list[tuple[int, int, int]]:
    found = []
    for number, word in enumerate(WORDS):
        at = buffer.find(word)
        while at >= 0:
            found.append((number, at, at + len(word)))
            at = buffer.find(word, at + 1)
    return sorted(found)


def _engine(name: str) -> Finder:
    if name == "aho":
        pytest.importorskip("ahocorasick_rs")
    return Finder(WORDS, name)


@pytest.mark.parametrize("name", ["aho", "re2", "re"])
def test_an_engine_finds_what_is_there(name: str) -> None:
    finder = _engine(name)
    rng = random.Random(3)
    for _ in range(200):
        buffer = b"".join(rng.choice([*WORDS, b" ", b"\n", b"x", b"\xe9", b"\r", b"E0"]) for _ in range(30))
        found = list(finder.find(buffer))
        assert sorted(found) == _everywhere(buffer)
        assert [stop for _, _, stop in found] == sorted(stop for _, _, stop in found)


@given(st.binary(max_size=200))
@settings(max_examples=150, deadline=None)
def test_no_bytes_break_an_engine(junk: bytes) -> None:
    buffer = junk + WORDS[3] + junk + WORDS[2] + junk
    for name in ("re2", "re"):
        assert sorted(_engine(name).find(buffer)) == _everywhere(buffer)


def test_nothing_to_find_is_not_found() -> None:
    for name in ("re2", "re"):
        assert not list(Finder((), name).find(b"loss"))
