"""The run file of Weights & Biases; the files are written here, as wandb 0.31 writes them."""

from __future__ import annotations

import json
import math
import zlib
from pathlib import Path

import pytest

from preflight.source.dumps import wandb_run
from preflight.source.dumps.opening import format_of
from preflight.source.logs import read_logs
from preflight.vocabulary.log import LogFile

FILE = LogFile(index=0, path="run-abc.wandb", kind="metrics")


def varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def message(*fields: tuple[int, int | bytes]) -> bytes:
    found = b""
    for number, value in fields:
        if isinstance(value, int):
            found += varint(number << 3) + varint(value % (1 << 64))
        else:
            found += varint(number << 3 | 2) + varint(len(value)) + value
    return found


def history(step: int, nested: bool = False, **values: object) -> bytes:
    items = []
    for name, value in {"_step": step, **values}.items():
        names = [(2, part.encode()) for part in name.split("/")] if nested else [(1, name.encode())]
        items.append((1, message(*names, (16, json.dumps(value).encode()))))
    return message((1, step + 7), (2, message((2, message((1, step))), *items)))


def chunk(kind: int, data: bytes) -> bytes:
    checksum = zlib.crc32(data, zlib.crc32(bytes([kind])))
    return checksum.to_bytes(4, "little") + len(data).to_bytes(2, "little") + bytes([kind]) + data


def run_file(*records: bytes) -> bytes:
    content = bytearray(b":W&B\xe1\xbe\x00")
    for record in records:
        rest, first = record, True
        while True:
            left = 32768 - len(content) % 32768
            if left < 7:
                content += bytes(left)
                left = 32768
            data, rest = rest[: left - 7], rest[left - 7 :]
            content += chunk((1 if first else 4) if not rest else (2 if first else 3), data)
            first = False
            if not rest:
                break
    return bytes(content)


END = message((1, 9000), (18, message((2, 60))))


def test_its_history_is_read_in_its_steps_with_the_exit_code(tmp_path: Path) -> None:
    rows = [
        history(i, **{"train/loss": 3.0 - i / 1000, "step_time": 0.5, "note": "x", "_timestamp": 1.7e9 + i})
        for i in range(500)
    ]
    path = tmp_path / "run-abc.wandb"
    path.write_bytes(run_file(message((1, 1), (17, b"\x0a\x03abc")), *rows, END))
    reading = read_logs([path])
    assert [file.kind for file in reading.files] == ["metrics"]
    assert [one.step for one in reading.steps] == list(range(500))
    assert reading.steps[7].values == {"loss": 2.993, "seconds": 0.5}
    assert reading.steps[7].time == 1.7e9 + 7
    assert [(one.code, one.teller) for one in reading.endings] == [(0, "wandb")]


def test_records_over_several_blocks_nested_names_and_numbers_that_are_none() -> None:
    long = history(0, picture="x" * 100_000, loss=2.0)
    odd = history(1, nested=True, **{"train/loss": math.nan})
    inner = history(2, train={"loss": 1.5})
    part = wandb_run.read(run_file(long, odd, inner), FILE)
    assert part.problem is None
    assert [one.step for one in part.steps] == [0, 1, 2]
    assert part.steps[0].values == {"loss": 2.0}
    assert math.isnan(part.steps[1].values["loss"])
    assert part.steps[2].values == {"loss": 1.5}


def test_a_failed_run_says_so_and_the_sums_at_the_end_are_no_step() -> None:
    sums = history(3, **{"train/train_runtime": 60.0, "train/loss": 2.0})
    failed = message((18, message((1, 1))))
    killed = message((18, message((1, -9))))
    part = wandb_run.read(run_file(history(2, loss=1.0), sums, failed, killed), FILE)
    assert [one.step for one in part.steps] == [2]
    assert [one.code for one in part.endings] == [1, -9]


def test_what_is_whole_is_read_of_a_file_that_was_cut_off_or_damaged() -> None:
    whole = run_file(*(history(i, loss=float(i), fill="y" * 3000) for i in range(40)))
    part = wandb_run.read(whole[:-50], FILE)
    assert [one.step for one in part.steps] == list(range(39))
    assert part.problem is not None
    # A flipped bit loses its block, and what the others hold stays.
    bent = bytearray(whole)
    bent[5000] ^= 1
    part = wandb_run.read(bytes(bent), FILE)
    steps = [one.step for one in part.steps]
    assert steps[0] == 0
    assert steps[-1] == 39
    assert 20 <= len(steps) < 40
    assert part.problem is not None


@pytest.mark.parametrize("junk", [b":W&B", b":W&B\xe1\xbe\x00" + bytes(range(256)) * 300, run_file(b"\xff" * 50, b"")])
def test_junk_is_named_and_breaks_nothing(junk: bytes) -> None:
    assert format_of("x", junk) is wandb_run
    part = wandb_run.read(junk, FILE)
    assert part.steps == ()
    assert (part.problem is None) == (junk == b":W&B")
