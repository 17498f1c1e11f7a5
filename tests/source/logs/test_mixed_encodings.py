"""Files to which one program wrote UTF-16 and another single bytes, as shells of Windows make them."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from preflight.source.logs import read_logs
from preflight.source.logs.blocks import Opened
from preflight.source.logs.wide import Mixed, wide_in

STEPS = "".join(f"step {number} loss 2.5 Größe ✓ 训练\n" for number in range(60))
OOM = "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB\n"
WIDE = ("utf-16-le", "utf-16-be")


@pytest.mark.parametrize("wide", WIDE)
@pytest.mark.parametrize("marked", [False, True])
@pytest.mark.parametrize("size", [7, 64, 1 << 20])
def test_parts_are_read_in_any_order_and_in_any_pieces(wide: str, marked: bool, size: int) -> None:
    mark = "\ufeff".encode(wide) if marked else b""
    middle = ("模型训练开始上海" * 9 + "\nok\n").encode(wide)
    for first in (STEPS.encode(), mark + STEPS.encode(wide)):
        data = first + mark + OOM.encode(wide) + middle + (STEPS + OOM).encode() + b"caf\xe9\n"
        mixed = Mixed(wide)
        text = "".join(mixed(data[at : at + size]) for at in range(0, len(data), size)) + mixed(b"", True)
        expected = STEPS + OOM + "模型训练开始上海" * 9 + "\nok\n" + STEPS + OOM
        assert text.encode("utf-8", "surrogateescape") == expected.encode() + b"caf\xe9\n"
        assert mixed.parts


@pytest.mark.parametrize("wide", WIDE)
def test_wide_text_alone_has_no_other_parts(wide: str) -> None:
    mixed = Mixed(wide)
    text = "模型训练开始上海\n当前损失值\n" * 400 + STEPS
    assert mixed(text.encode(wide), True) == text
    assert not mixed.parts


@pytest.mark.parametrize("wide", WIDE)
@pytest.mark.parametrize("before", [1, 3000])
def test_a_failure_is_found_behind_the_change(tmp_path: Path, wide: str, before: int) -> None:
    (tmp_path / "a.log").write_bytes((STEPS * before).encode(wide) + OOM.encode())
    (tmp_path / "b.log").write_bytes((STEPS * before).encode() + OOM.encode(wide))
    reading = read_logs([tmp_path])
    assert [(hit.file, hit.line) for hit in reading.hits] == [(0, 60 * before + 1), (1, 60 * before + 1)]
    assert {file.problem for file in reading.files} == {
        "parts of it are in UTF-16 and others in single bytes; both are read"
    }


def test_what_only_holds_such_text_is_no_text() -> None:
    held = b"\x80\x04\x95\x10\x00\x00" * 60 + "a name in sixteen bits".encode("utf-16-le") + bytes(range(32)) * 20
    assert wide_in(held) is None
    assert wide_in(STEPS.encode() + b"\0" * 4096 + STEPS.encode()) is None
    opened = Opened(io.BytesIO(held))
    assert opened.read(1 << 20) == held
