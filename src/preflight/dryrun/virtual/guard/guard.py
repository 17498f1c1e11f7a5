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
from preflight.dryrun.virtual.guard.overlay import Overlay, Scanned, exists, place_in

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGES = frozenset(
    "os.remove os.rename os.rmdir os.mkdir os.link os.symlink os.truncate os.chmod os.chown os.chflags os.utime "
    "os.setxattr os.removexattr shutil.rmtree".split()
)
"""Those of shutil that copy or move are made of these, and their events name the paths that the script named."""
_STARTS = frozenset(
    "subprocess.Popen os.system os.exec os.posix_spawn os.spawn os.fork os.forkpty pty.spawn os.startfile".split()
)
_FOLDERS: dict[str, tuple[int | None, ...]] = {
    "os.remove": (1,),
    "os.rmdir": (1,),
    "os.mkdir": (2,),
    "os.chmod": (2,),
    "os.chown": (3,),
    "os.utime": (3,),
    "os.symlink": (None, 2),
    "os.rename": (2, 3),
    "os.link": (2, 3),
}
"""Which argument of an event is the open folder that its first path starts from, and that of its second."""
_TALKS = frozenset(
    "socket.connect socket.getaddrinfo socket.gethostbyname socket.gethostbyaddr socket.getnameinfo socket.bind "
    "socket.sendto socket.sethostname".split()
)
_SIGNALS = frozenset(("os.kill", "os.killpg"))


_open = builtins.open


def install(scratch: str) -> Overlay:
    """Redirect and guard everything that follows in this process; return what it knows."""
    overlay = Overlay(scratch)
    _redirect_open(overlay)
    changing.install(overlay)
    links.install(overlay)
    _redirect_looks(overlay)
    _redirect_signals(overlay)
    _audit(overlay)
    return overlay


def _redirect_open(overlay: Overlay) -> None:
    def opened(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        writes = any(letter in mode for letter in "wax+")
        target = overlay.writing(file, keep="w" not in mode) if writes else overlay.reading(file)
        return _open(target, mode, *args, **kwargs)

    plain = os.open

    def opened_low(path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
        folder = kwargs.get("dir_fd")
        if folder is not None and (whole := place_in(path, folder)) is not None:
            path, folder = whole, None
            del kwargs["dir_fd"]
        if folder is None:
            anew = flags & os.O_CREAT and flags & os.O_TRUNC
            path = overlay.writing(path, keep=not anew) if flags & _WRITES else overlay.reading(path)
        elif flags & _WRITES:
            raise PermissionError(1, "a dry run writes nothing outside its scratch folder", path)
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


def _redirect_signals(overlay: Overlay) -> None:
    """Let signals reach this process alone: others, and the group that this one may share, are not the script's here."""
    plain = os.kill

    def signalled(pid: int, number: int) -> None:
        if pid == os.getpid() or (pid > 0 and number == 0):
            return plain(pid, number)
        overlay.refused["os.kill"] += 1
        return None

    def signalled_group(group: int, number: int) -> None:
        overlay.refused["os.killpg"] += 1

    os.kill = signalled
    if hasattr(os, "killpg"):
        os.killpg = signalled_group


def _audit(overlay: Overlay) -> None:
    def outside(event: str, args: tuple[Any, ...]) -> bool:
        """Whether one of the paths of an event lies elsewhere; the first may be the number of an open file."""
        folders = _FOLDERS.get(event, ())
        for number, path in enumerate(args[:2]):
            if isinstance(path, (str, bytes, os.PathLike)) or (number == 0 and isinstance(path, int)):
                at = folders[number] if number < len(folders) else None
                if not overlay.holds(path, -1 if at is None else args[at]):
                    return True
        return False

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = args
            changes = bool(flags & _WRITES) if isinstance(flags, int) else False
            if changes and not overlay.mine(path):
                overlay.refused[f"write {os.fsdecode(path)}"] += 1
                raise PermissionError(1, "a dry run writes nothing outside its scratch folder", path)
        elif event in _CHANGES:
            if outside(event, args):
                overlay.refused[f"{event} {args[0]!r}"] += 1
                raise PermissionError(1, f"a dry run changes nothing outside its scratch folder ({event})", args[0])
        elif event in _STARTS:
            overlay.refused[event] += 1
            raise PermissionError(1, f"a dry run starts no other program ({event})")
        elif event in _SIGNALS:
            if event == "os.killpg" or (args[0] != os.getpid() and (args[0] <= 0 or args[1] != 0)):
                overlay.refused[event] += 1
                raise PermissionError(1, f"a dry run signals no other process ({event})")
        elif event in _TALKS or (event == "socket.sendmsg" and args[1] is not None):
            overlay.refused[event] += 1
            raise ConnectionRefusedError(111, f"a dry run has no network ({event})")

    sys.addaudithook(hook)
