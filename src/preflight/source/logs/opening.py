"""Finds what there is to read: files, folders, patterns, archives, standard input; names what cannot be read, and why."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Sequence

import msgspec

STDIN = "-"
_PACKED = {".gz": "gz", ".zst": "zst", ".zstd": "zst", ".bz2": "bz2", ".xz": "xz", ".lzma": "xz"}
_MAGIC = (
    (b"\x1f\x8b", "gz"),
    (b"\x28\xb5\x2f\xfd", "zst"),
    (b"BZh", "bz2"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"PK\x03\x04", "zip"),
)
_TAR = (".tar", ".tgz", ".tbz", ".tbz2", ".txz", ".tzst", ".tar.gz", ".tar.bz2", ".tar.xz", ".tar.zst", ".tar.zstd")
_ZIP_DATA = (".pt", ".pth", ".ckpt", ".npz", ".whl", ".jar", ".safetensors", ".distcp")
"""Zip files by their content that are no archives of logs: a checkpoint is not looked into."""
_SEGMENT = re.compile(r"(?:rank|worker)-\d+\.\d+(?:\.\d+)?\.trace")
_OF_A_TRACE = ("run.json", "sealed.json", "invariants.jsonl", "arrivals.jsonl", "alerts.jsonl")


_ABOVE = 2
_OF_A_FILE = 4
"""So many parts of the path of a file that was given by itself may tell whose it is."""


class Source(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something to read from.

    Attributes:
        path: How it is called in the reading.
        name: The part of its path that may tell whose it is: from two folders above what was given.
        place: Where it is on this machine; ``-`` for standard input.
        packing: ``gz``, ``zst``, ``bz2``, ``xz``, or empty.
        archive: ``tar``, ``zip``, or empty.
        size: Bytes on the disk.
        modified: When it was written last.
        problem: Why it cannot be opened.
        content: What it holds, for standard input.
    """

    path: str
    place: str
    name: str = ""
    packing: str = ""
    archive: str = ""
    size: int = 0
    modified: float | None = None
    problem: str | None = None
    content: bytes | None = None


def sources(paths: Sequence[str | os.PathLike[str]], stdin: bytes | None = None) -> tuple[list[Source], list[str]]:
    """Return what there is to read under the paths, in a steady order, each file once; and what has to be said.

    Args:
        paths: Files, folders (with all below them), patterns, archives, or ``-``.
        stdin: What standard input holds, where ``-`` is among the paths.
    """
    found: list[Source] = []
    notes: list[str] = []
    seen: set[tuple[int, int, str]] = set()
    places: list[str] = []
    for path in (os.fspath(given) for given in paths):
        places += [path] if path == STDIN and stdin is not None else _expanded(path, notes)
    shared = _shared([place for place in places if place != STDIN and not os.path.isdir(place)])
    for place in places:
        if place == STDIN and stdin is not None:
            found.append(_standard_input(stdin))
            continue
        found += [one for one in _below(place, notes, shared) if not _again(one, seen)]
    return found, notes


def _shared(files: Sequence[str]) -> str | None:
    """Return the folder that holds all files that were given one by one, as a shell gives what its pattern matches."""
    folders = {os.path.dirname(os.path.abspath(path)) for path in files}
    try:
        return os.path.commonpath(folders) if len(folders) > 1 else None
    except ValueError:  # on drives of their own
        return None


def _expanded(path: str, notes: list[str]) -> list[str]:
    path = os.path.expanduser(path)
    if os.path.lexists(path) or not glob.has_magic(path):
        return [path]
    matches = sorted(glob.glob(path, recursive=True))
    if not matches:
        notes.append(f"{path}: no file matches")
    return matches


def _again(source: Source, seen: set[tuple[int, int, str]]) -> bool:
    """Whether the same path was given before, by another pattern or folder."""
    key = (0, 0, os.path.realpath(source.place))
    if key in seen:
        return True
    seen.add(key)
    return False


def _below(place: str, notes: list[str], shared: str | None) -> Iterator[Source]:
    if not os.path.isdir(place):
        within = os.path.relpath(os.path.abspath(place), shared).replace("\\", "/") if shared is not None else ""
        yield _source(place, _tail(place, max(_OF_A_FILE, _ABOVE + within.count("/") + 1 if within else 0)))
        return
    count = 0
    above = _tail(place, _ABOVE)
    walked: set[str] = set()
    for folder, names, files in os.walk(place, followlinks=True, onerror=lambda error: notes.append(_why(error))):
        real = os.path.realpath(folder)
        if real in walked:
            notes.append(f"{folder}: a link back to a folder that was read already")
            names[:] = []
            continue
        walked.add(real)
        names[:] = sorted(name for name in names if name not in ("__pycache__", ".git"))
        of_monitor = _of_monitor(files)
        for name in sorted(files):
            count += 1
            if name in of_monitor:
                continue
            path = os.path.join(folder, name)
            yield _source(path, "/".join((above, os.path.relpath(path, place).replace("\\", "/"))))
    if not count:
        notes.append(f"{place}: there is no file in this folder")


def _of_monitor(names: Sequence[str]) -> set[str]:
    """Return the files of a folder that make up a trace of ``preflight monitor``: it is no log, and is judged by itself."""
    if not any(name == "sealed.json" or _SEGMENT.fullmatch(name) for name in names):
        return set()
    return {name for name in names if _SEGMENT.fullmatch(name) or name in _OF_A_TRACE or name.endswith(".parquet")}


def _why(error: OSError) -> str:
    return f"{error.filename}: {error.strerror or type(error).__name__}"


def _tail(place: str, count: int) -> str:
    """Return the last folders of a path: those farther up are the machine's, and say nothing of the run."""
    return "/".join(os.path.abspath(place).replace("\\", "/").split("/")[-count:])


def _source(place: str, name: str) -> Source:
    try:
        about = os.stat(place)
    except OSError as error:
        return Source(place, place, name, problem=error.strerror or str(error))
    if not os.path.isfile(place):
        return Source(place, place, name, problem="not a file (a device, a pipe or a socket)")
    packing, archive = _packing(place)
    return Source(place, place, name, packing, archive, about.st_size, about.st_mtime)


def _packing(place: str) -> tuple[str, str]:
    """Tell by the name how a file is packed; ``unpacked`` asks its first bytes."""
    name = os.path.basename(place).lower()
    for ending in _TAR:
        if name.endswith(ending):
            tail = {".tgz": "gz", ".tbz": "bz2", ".tbz2": "bz2", ".txz": "xz", ".tzst": "zst"}.get(ending)
            return tail or _PACKED.get(os.path.splitext(name)[1], ""), "tar"
    if name.endswith(".zip"):
        return "", "zip"
    return _PACKED.get(os.path.splitext(name)[1], ""), ""


def packing_of(head: bytes, name: str) -> str:
    """Tell from the first bytes how a file is packed: ``gz``, ``zst``, ``bz2``, ``xz``, ``zip``, ``tar``, or not at all."""
    for magic, packing in _MAGIC:
        if head.startswith(magic):
            return "" if packing == "zip" and name.lower().endswith(_ZIP_DATA) else packing
    return "tar" if head[257:262] == b"ustar" else ""


def _standard_input(content: bytes) -> Source:
    return Source(STDIN, STDIN, size=len(content), content=content)
