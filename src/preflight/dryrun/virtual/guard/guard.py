"""Keeps a dry run from doing anything to the machine: what the script writes goes to a scratch folder, which it can read back.

Two layers. Functions of Python that write, delete or look at files are redirected to the scratch folder. Behind them an
audit hook, which code cannot take off again, refuses what still would change a file elsewhere, start a program or use
the network. Libraries that write from native code are met one by one (``saving``).
"""

from __future__ import annotations

import builtins
import io
import os
import sys
from typing import Any

from preflight.dryrun.virtual.guard import changing, links
from preflight.dryrun.virtual.guard.overlay import Overlay, Scanned, exists

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGES = frozenset(
    "os.remove os.rename os.rmdir os.mkdir os.link os.symlink os.truncate os.chmod os.chown os.utime os.setxattr "
    "shutil.rmtree".split()
)
"""Those of shutil that copy or move are made of these, and their events name the paths that the script named."""
_STARTS = frozenset(
    "subprocess.Popen os.system os.exec os.posix_spawn os.spawn os.fork os.forkpty pty.spawn os.startfile".split()
)
_TALKS = frozenset("socket.connect socket.getaddrinfo socket.gethostbyname socket.bind socket.sendto".split())


_open = builtins.open


def install(scratch: str) -> Overlay:
    """Redirect and guard everything that follows in this process; return what it knows."""
    overlay = Overlay(scratch)
    _redirect_open(overlay)
    changing.install(overlay)
    links.install(overlay)
    _redirect_looks(overlay)
    _audit(overlay)
    return overlay


def _redirect_open(overlay: Overlay) -> None:
    def opened(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        writes = any(letter in mode for letter in "wax+")
        target = overlay.writing(file, keep="w" not in mode) if writes else overlay.reading(file)
        return _open(target, mode, *args, **kwargs)

    plain = os.open

    def opened_low(path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
        if kwargs.get("dir_fd") is None:
            path = overlay.writing(path, keep=not flags & os.O_TRUNC) if flags & _WRITES else overlay.reading(path)
        return plain(path, flags, *args, **kwargs)

    class FileIO(io.FileIO):
        """A file of the lowest kind, as some libraries open it themselves."""

        def __init__(self, file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> None:
            writes = any(letter in mode for letter in "wax+")
            super().__init__(
                overlay.writing(file, "w" not in mode) if writes else overlay.reading(file), mode, *args, **kwargs
            )

    builtins.open = io.open = opened
    os.open = opened_low
    io.FileIO = FileIO  # type: ignore[misc]


def _redirect_looks(overlay: Overlay) -> None:
    stat, lstat, listdir, scandir, access = os.stat, os.lstat, os.listdir, os.scandir, os.access

    def looked(path: Any, **kwargs: Any) -> Any:
        return stat(overlay.reading(path) if kwargs.get("dir_fd") is None else path, **kwargs)

    def looked_at_link(path: Any, **kwargs: Any) -> Any:
        return lstat(overlay.reading(path) if kwargs.get("dir_fd") is None else path, **kwargs)

    def listed(path: Any = ".") -> Any:
        if overlay.mine(path):
            return listdir(path)
        above, whole = overlay.above(path), os.path.abspath(os.fsdecode(path))
        below = overlay.shows(whole)
        there = listdir(path) if below or not exists(above) else []
        kept = [name for name in there if os.path.join(whole, name) not in overlay.gone]
        more = listdir(above) if exists(above) else []
        return kept + [name for name in more if name not in kept]

    def scanned(path: Any = ".") -> Any:
        if overlay.mine(path):
            return scandir(path)
        above, whole = overlay.above(path), os.path.abspath(os.fsdecode(path))
        parts = [scandir(above)] if os.path.isdir(above) else []
        if not parts or overlay.shows(whole):
            parts.append(scandir(path))
        return Scanned(parts, overlay.gone)

    def allowed(path: Any, mode: int, **kwargs: Any) -> bool:
        return access(overlay.reading(path), mode & ~os.W_OK if mode != os.F_OK else mode, **kwargs)

    os.stat, os.lstat, os.listdir, os.scandir, os.access = looked, looked_at_link, listed, scanned, allowed


def _audit(overlay: Overlay) -> None:
    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = args
            changes = bool(flags & _WRITES) if isinstance(flags, int) else False
            if changes and not overlay.mine(path):
                overlay.refused[f"write {os.fsdecode(path)}"] += 1
                raise PermissionError(1, "a dry run writes nothing outside its scratch folder", path)
        elif event in _CHANGES:
            if not all(overlay.mine(arg) for arg in args[:2] if isinstance(arg, (str, bytes, os.PathLike))):
                overlay.refused[f"{event} {args[0]!r}"] += 1
                raise PermissionError(1, f"a dry run changes nothing outside its scratch folder ({event})", args[0])
        elif event in _STARTS:
            overlay.refused[event] += 1
            raise PermissionError(1, f"a dry run starts no other program ({event})")
        elif event in _TALKS:
            overlay.refused[event] += 1
            raise ConnectionRefusedError(111, f"a dry run has no network ({event})")

    sys.addaudithook(hook)
