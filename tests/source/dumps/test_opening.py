from __future__ import annotations

from types import ModuleType

import pytest

from preflight.source.dumps.opening import format_of, formats, read_dump
from preflight.vocabulary.log import LogFile


def test_every_format_offers_what_a_format_has_to_offer() -> None:
    for module in formats():
        assert isinstance(module.KIND, str)
        assert callable(module.looks_like)
        assert callable(module.read)


@pytest.mark.parametrize("head", [b"", b"\x00\xff\xfe" * 100, b"step 1 loss 2.5\n" * 50])
def test_junk_and_ordinary_logs_are_no_dump(head: bytes) -> None:
    assert format_of("rank_0.log", head) is None


def test_a_reader_that_breaks_names_the_file_s_problem() -> None:
    broken = ModuleType("broken")
    broken.KIND = "ras"  # type: ignore[attr-defined]
    broken.read = lambda content, file: {}["nothing"]  # type: ignore[attr-defined]
    part = read_dump(broken, b"", LogFile(index=0, path="x", kind="ras"))
    assert part.problem is not None
    assert "KeyError" in part.problem
