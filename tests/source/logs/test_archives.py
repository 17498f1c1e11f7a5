"""Packed files and archives: known by their content, read as far as they go, and cut ones named."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import random
import tarfile
import zipfile
from pathlib import Path

import pytest

from preflight.source.logs import read_logs
from preflight.source.logs.blocks import Opened

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
LOG = "2024-01-01 12:00:00,000 INFO step: 1 loss: 2.5\n" * 200 + OOM
SIGNATURE = "oom.cuda-allocation"
PACKERS = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}


def _signatures(path: Path) -> list[str]:
    return [hit.signature for hit in read_logs([path]).hits]


def _zst(data: bytes) -> bytes:
    zstandard = pytest.importorskip("zstandard")
    packed: bytes = zstandard.ZstdCompressor().compress(data)
    return packed


@pytest.mark.parametrize("kind", [*PACKERS, "zst"])
def test_a_packed_file_is_read_by_its_content_not_its_name(kind: str, tmp_path: Path) -> None:
    packed = (PACKERS.get(kind) or _zst)(LOG.encode())
    (tmp_path / f"a.log.{kind}").write_bytes(packed)
    (tmp_path / "plain.log").write_bytes(packed)
    reading = read_logs([tmp_path])
    assert [hit.signature for hit in reading.hits] == [SIGNATURE] * 2
    assert [(file.size, file.lines) for file in reading.files] == [(len(LOG), 201)] * 2


@pytest.mark.parametrize("kind", [*PACKERS, "zst"])
def test_a_packed_file_that_is_cut_off_is_read_to_there(kind: str, tmp_path: Path) -> None:
    noise = random.Random(5)
    filler = "".join(f"2024-01-01 12:00:00,000 INFO {noise.getrandbits(200):x}\n" for _ in range(20_000))
    packed = (PACKERS.get(kind) or _zst)((OOM + filler + "the end\n").encode())
    path = tmp_path / f"a.log.{kind}"
    path.write_bytes(packed[: len(packed) * 9 // 10])
    reading = read_logs([path])
    assert [hit.signature for hit in reading.hits] == [SIGNATURE]
    (file,) = reading.files
    assert "cut off" in (file.problem or "") or "damaged" in (file.problem or "")
    assert file.size > len(filler) // 4


def test_frames_of_zst_one_after_the_other_are_one_log_and_a_cut_last_one_is_named(tmp_path: Path) -> None:
    two = _zst(LOG.encode()) + _zst(LOG.encode())
    (tmp_path / "a.log.zst").write_bytes(two)
    (tmp_path / "b.log.zst").write_bytes(two[:-9])
    (tmp_path / "c.log.zst").write_bytes(two + b"no frame at all")
    whole, cut, dirty = read_logs([tmp_path]).files
    assert (whole.size, whole.problem) == (2 * len(LOG), None)
    assert cut.size >= len(LOG)
    assert "cut off" in (cut.problem or "")
    assert dirty.size == 2 * len(LOG)
    assert "damaged" in (dirty.problem or "")


def test_a_bomb_of_zst_is_unpacked_bit_by_bit() -> None:
    opened = Opened(io.BytesIO(_zst(bytes(1 << 28))), "zst")
    opened.plain = True
    assert 0 < max(len(block.data) for block in opened.blocks()) < 1 << 27


def test_a_damaged_gzip_is_read_to_the_damage(tmp_path: Path) -> None:
    noise = random.Random(5)
    filler = "".join(f"INFO {noise.getrandbits(200):x}\n" for _ in range(20_000))
    packed = bytearray(gzip.compress((OOM + filler).encode()))
    packed[len(packed) // 2 :] = bytes(len(packed) - len(packed) // 2)
    (tmp_path / "a.log.gz").write_bytes(bytes(packed))
    reading = read_logs([tmp_path])
    assert [hit.signature for hit in reading.hits] == [SIGNATURE]
    assert reading.files[0].problem


def test_two_gzips_one_after_the_other_are_one_log(tmp_path: Path) -> None:
    (tmp_path / "a.log.gz").write_bytes(gzip.compress(LOG.encode()) + gzip.compress(LOG.encode()))
    assert _signatures(tmp_path) == [SIGNATURE] * 2


@pytest.mark.parametrize("ending", ["tar", "tar.gz", "tgz", "tar.bz2", "tar.xz", "zip", "tar.zst"])
def test_the_members_of_an_archive_are_files(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"run.{ending}"
    names = {"run/none_x/attempt_0/1/stderr.log": LOG.encode(), "run/rank_2.log.gz": gzip.compress(LOG.encode())}
    if ending == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in names.items():
                archive.writestr(name, content)
    else:
        buffer = io.BytesIO()
        mode = {"tar.gz": "w:gz", "tgz": "w:gz", "tar.bz2": "w:bz2", "tar.xz": "w:xz"}.get(ending, "w")
        with tarfile.open(fileobj=buffer, mode=mode) as archive:  # type: ignore[call-overload]
            for name, content in names.items():
                member = tarfile.TarInfo(name)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
        path.write_bytes(_zst(buffer.getvalue()) if ending == "tar.zst" else buffer.getvalue())
    reading = read_logs([path])
    assert [hit.signature for hit in reading.hits] == [SIGNATURE] * 2
    assert [file.path.partition("!")[2] for file in reading.files] == list(names)
    assert [file.who.rank for file in reading.files] == [1, 2]
    assert [hit.file for hit in reading.hits] == [0, 1]


def _tar(names: dict[str, bytes], mode: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:  # type: ignore[call-overload]
        for name, content in names.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


@pytest.mark.parametrize("mode", ["w:gz", "w:bz2", "w:xz", "w"])
def test_an_archive_is_known_by_its_content_also_on_standard_input_and_within_another(
    mode: str, tmp_path: Path
) -> None:
    packed = _tar({"run/rank_1.log": LOG.encode(), "run/rank_2.log": b"fine\n"}, mode)
    (tmp_path / "no_name").write_bytes(packed)
    (tmp_path / "outer.zip").write_bytes(_zipped({"inner.tgz": packed}))
    for reading in (
        read_logs([tmp_path / "no_name"]),
        read_logs(["-"], stdin=packed),
        read_logs([tmp_path / "outer.zip"]),
    ):
        assert [(hit.signature, hit.who.rank) for hit in reading.hits] == [(SIGNATURE, 1)]
        assert [file.path.rpartition("!")[2] for file in reading.files] == ["run/rank_1.log", "run/rank_2.log"]


def _zipped(names: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in names.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def test_files_of_an_archive_that_count_up_are_those_of_ranks_as_they_are_in_a_folder(tmp_path: Path) -> None:
    names = {f"logs/train-991_{rank}.out": LOG.encode() if rank == 1 else b"fine\n" for rank in range(3)}
    (tmp_path / "logs.tar.gz").write_bytes(_tar(names, "w:gz"))
    reading = read_logs([tmp_path / "logs.tar.gz"])
    assert [file.who.rank for file in reading.files] == [0, 1, 2]
    assert [hit.who.rank for hit in reading.hits] == [1]


def test_an_archive_within_an_archive_is_read_and_a_cut_one_is_named(tmp_path: Path) -> None:
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("rank_1.log", LOG)
    outer = io.BytesIO()
    with tarfile.open(fileobj=outer, mode="w:gz") as tar:
        for name, content in (("a.log", LOG.encode()), ("logs.zip", inner.getvalue()), ("b.log", os.urandom(200_000))):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    path = tmp_path / "run.tar.gz"
    path.write_bytes(outer.getvalue())
    assert _signatures(path) == [SIGNATURE] * 2
    path.write_bytes(outer.getvalue()[:-60_000])
    reading = read_logs([path])
    assert [hit.signature for hit in reading.hits] == [SIGNATURE] * 2
    assert any(file.problem for file in reading.files)
