"""Small batches are copied for the writer: their fingerprints are those that would have been taken at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from preflight.monitor.collect import copied, digest
from preflight.monitor.collect.checksum_grid import SERIAL
from preflight.monitor.collect.columns import TABLES
from preflight.monitor.collect.digests import Digests
from preflight.monitor.collect.recorder import Recorder
from preflight.monitor.collect.settings import Settings
from preflight.monitor.collect.writer import Writer
from preflight.monitor.trace.reader import Reader

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

_BITS = list(TABLES["batch"]).index("bits")


def _row(bits: Any, q: int = 1) -> tuple[str, tuple[Any, ...]]:
    row: list[Any] = [None] * len(TABLES["batch"])
    row[0], row[_BITS] = q, bits
    return "batch", tuple(row)


def _batch(shape: tuple[int, ...], seed: int = 0, kind: Any = None) -> list[Any]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(0, 50, shape, generator=generator).to(kind or torch.int64) for _ in range(2)]


@pytest.mark.parametrize("shape", [(8, 8), (8, 64), (8, 256), (2000,)])
@pytest.mark.parametrize("kind", [torch.int64, torch.float32, torch.bfloat16])
def test_the_numbers_are_those_taken_at_once_of_what_the_batch_was(shape: tuple[int, ...], kind: Any) -> None:
    batch = _batch(shape, kind=kind)
    expected = digest.samples(batch).values()
    copy = copied.copied(torch, batch)
    assert len(copy) == 2
    for tensor in batch:
        tensor.zero_()  # as a program does that fills the same buffers again
    assert [row[_BITS] for _, row in copied.told([_row(copy)])] == [expected]


def test_of_tensors_that_do_not_lie_in_one_piece_the_numbers_are_the_same() -> None:
    batch = [one.t() for one in _batch((8, 64))]
    assert not batch[0].is_contiguous()
    expected = digest.samples(batch).values()
    assert [row[_BITS] for _, row in copied.told([_row(copied.copied(torch, batch))])] == [expected]


def test_tensors_that_lie_there_are_copied_without_an_operation_of_torchs() -> None:
    batch = _batch((8, 64))
    with torch.autograd.profiler.profile() as profile:
        copied.copied(torch, batch)
    assert not [event.name for event in profile.function_events if event.name.startswith("aten::")]


def test_those_of_many_batches_of_several_sizes_stand_in_their_own_rows() -> None:
    batches = [_batch((8, 8 + 64 * (number % 3)), number) for number in range(60)]
    batches += [batch[:1] for batch in batches[:10]]
    assert sum(tensor.nbytes for batch in batches for tensor in batch) > SERIAL * 8  # more than is taken at a time
    rows = [_row(copied.copied(torch, batch), number) for number, batch in enumerate(batches)]
    other = ("scalar", (1, 2, 3))
    known = _row([1, None])
    found = copied.told([other, *rows, known])
    assert found[0] == other
    assert found[-1] == known
    assert [row[0] for _, row in found[1:-1]] == list(range(len(batches)))
    assert [row[_BITS] for _, row in found[1:-1]] == [digest.samples(batch).values() for batch in batches]


def test_a_batch_that_cannot_be_taken_so_is_not_copied() -> None:
    (few,) = _batch((8, 8))[:1]
    for batch in (
        [],
        [few, None],
        [few, few[:4]],
        [few, few.float()],
        [few] * 5,
        [few.to(torch.int32)[0, :3]],
        [few[:0]],
        [torch.zeros(1 << 13)] * 2,
        [few.to("meta")],
        [few.to_sparse()],
    ):
        assert copied.copied(torch, batch) is None


def test_what_cannot_be_computed_is_not_known_and_costs_no_other_row(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [_row(copied.copied(torch, _batch((8, 8)))), _row([7])]
    monkeypatch.setattr(copied, "of_words", lambda *given: 1 / 0)
    assert [row[_BITS] for _, row in copied.told(rows)] == [[None, None], [7]]


def test_the_writer_puts_them_into_the_file(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "rank-00000.7.trace", interval=3600.0)
    recorder = Recorder(Settings(""), lambda _: writer)
    digests = Digests(recorder)
    batches = [_batch((8, 64), number) for number in range(5)]
    expected = [digest.samples(batch).values() for batch in batches]
    for batch in batches:
        digests.batch("forward:model", batch, None)
        batch[0].add_(1)
    kept = [type(row[_BITS]) for _, row in writer._rows]
    assert kept == [list, *[copied.Copied] * 4]  # the file is opened by the first row
    assert writer.close()
    reader = Reader(Path(writer.path))
    assert [bits for block in reader.poll() for bits in block.tables["batch"]["bits"]] == expected


def test_a_row_waits_for_a_copy_that_is_on_its_way_from_a_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Event:
        done = False

        def query(self) -> bool:
            return self.done

    writer = Writer(tmp_path / "rank-00000.7.trace", interval=3600.0)
    recorder = Recorder(Settings(""), lambda _: writer)
    recorder.scalar("loss", "", 1.0)  # the file is opened by the first row
    batch, event = _batch((8, 64)), Event()
    words = torch.zeros(2 * 8 * 64, dtype=torch.int64)
    monkeypatch.setattr("preflight.monitor.collect.digests.copied", lambda *_: copied.Copied(words, 2, 4096, event))
    Digests(recorder).batch("forward:model", batch, None)
    recorder.settle()
    assert [kind for kind, _ in writer._rows] == ["scalar"]
    words.copy_(torch.stack(batch).view(-1))  # as the device does
    event.done = True
    recorder.settle()
    words.zero_()  # as another copy does that is given the same pinned memory: the writer has none of it to give back
    assert [row[_BITS] for kind, row in copied.told(list(writer._rows)) if kind == "batch"] == [
        digest.samples(batch).values()
    ]
    assert writer.close()


@pytest.mark.cuda
def test_from_a_device_it_comes_without_waiting_for_it() -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    for batch in (_batch((8, 64)), [one.T for one in _batch((64, 8))], _batch((2000,), kind=torch.bfloat16)[:1]):
        moved = [tensor.cuda() for tensor in batch]
        copied.copied(torch, moved)
        torch.cuda.set_sync_debug_mode("error")
        try:
            copy = copied.copied(torch, moved)
        finally:
            torch.cuda.set_sync_debug_mode("default")
        for tensor in moved:
            tensor.zero_()
        assert copy.coming.values(wait=True) == []
        assert [row[_BITS] for _, row in copied.told([_row(copy)])] == [digest.samples(batch).values()]
    assert copied.copied(torch, [batch[0], batch[0].cuda()]) is None


def test_rows_that_wait_long_hold_no_copies(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "rank-00000.7.trace", interval=3600.0)
    assert writer.copies
    writer.put_all("scalar", [(q, q, 0, 0, "loss", "", 1.0) for q in range(2000)])
    assert not writer.copies
    assert writer.close()
