"""Keeps a dry run from doing anything to the machine: what the script writes goes to a scratch folder, which it can read back.

Two layers. Functions of Python that write, delete or look at files are redirected to the scratch folder. Behind them an
audit hook, which code cannot take off again, refuses what still would change a file elsewhere, start a program or use
the network. Libraries that write from native code are met one by one (``saving``).
"""

from __future__ import annotations

import builtins
import io
import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

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


class Overlay:
    """Where a path really leads while the script runs.

    Args:
        scratch: The folder that may be written to.
    """

    def __init__(self, scratch: str) -> None:
        self.scratch = os.path.join(os.path.realpath(scratch), "")
        self.files = os.path.join(self.scratch, "files")
        self.gone: set[str] = set()
        self.refused: Counter[str] = Counter()

    def mine(self, path: Any) -> bool:
        """Whether a path may be written to as it is: the scratch folder, a device, an open file."""
        if isinstance(path, int) or path is None:
            return True
        whole = os.path.abspath(os.fsdecode(path))
        return whole.startswith((self.scratch, "/dev/")) or whole + os.sep == self.scratch

    def above(self, path: Any) -> str:
        """Return the place in the scratch folder that stands for a path."""
        return self.files + os.path.abspath(os.fsdecode(path)).replace(":", "", 1)

    def reading(self, path: Any) -> Any:
        """Return where a path is read from."""
        if self.mine(path):
            return path
        above = self.above(path)
        if _exists(above):
            return above
        if os.path.abspath(os.fsdecode(path)) in self.gone:
            return above  # which is not there, so that the error is the usual one
        return path

    def writing(self, path: Any, keep: bool = False) -> Any:
        """Return where a path is written to.

        Args:
            path: The path that the script named.
            keep: Whether what the file holds now is needed.
        """
        if self.mine(path):
            return path
        above, whole = self.above(path), os.path.abspath(os.fsdecode(path))
        parent = os.path.dirname(whole)
        if not _exists(parent) and not _exists(self.above(parent)):
            return path  # the usual error: there is no such folder
        _makedirs(os.path.dirname(above), exist_ok=True)
        if keep and not _exists(above) and whole not in self.gone and os.path.isfile(whole):
            _copyfile(whole, above)
        self.gone.discard(whole)
        return above


_exists, _makedirs = os.path.lexists, os.makedirs
_lstat = os.lstat


def _really(path: str) -> bool:
    """Whether something is there outside the scratch folder."""
    try:
        _lstat(path)
    except (OSError, ValueError):
        return False
    return True


def _copyfile(source: str, target: str) -> None:
    with _open(source, "rb") as read, _open(target, "wb") as write:
        shutil.copyfileobj(read, write)


_open = builtins.open


def install(scratch: str) -> Overlay:
    """Redirect and guard everything that follows in this process; return what it knows."""
    overlay = Overlay(scratch)
    _redirect_open(overlay)
    _redirect_changes(overlay)
    _redirect_marks(overlay)
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


def _redirect_changes(overlay: Overlay) -> None:
    mkdir, remove, rename, rmdir = os.mkdir, os.remove, os.rename, os.rmdir

    def made(path: Any, mode: int = 0o777, **kwargs: Any) -> None:
        if overlay.mine(path):
            return mkdir(path, mode)
        above, whole = overlay.above(path), os.path.abspath(os.fsdecode(path))
        if _exists(above) or (os.path.isdir(whole) and whole not in overlay.gone):
            raise FileExistsError(17, "File exists", path)
        parent = os.path.dirname(whole)
        if not _exists(parent) and not _exists(overlay.above(parent)):
            raise FileNotFoundError(2, "No such file or directory", path)
        overlay.gone.discard(whole)
        return _makedirs_of(above)

    def _makedirs_of(path: str) -> None:
        if not _exists(os.path.dirname(path)):
            _makedirs_of(os.path.dirname(path))
        mkdir(path)

    def removed(path: Any, **kwargs: Any) -> None:
        if overlay.mine(path) or kwargs.get("dir_fd") is not None:
            return remove(path, **kwargs)
        above, whole = overlay.above(path), os.path.abspath(os.fsdecode(path))
        if _exists(above):
            remove(above)
        elif whole in overlay.gone or not _exists(whole):
            raise FileNotFoundError(2, "No such file or directory", path)
        overlay.gone.add(whole)
        return None

    def renamed(source: Any, target: Any, **kwargs: Any) -> None:
        place = overlay.writing(target)
        held = overlay.reading(source)
        if held is source and not overlay.mine(source):
            if os.path.isdir(source):
                raise PermissionError(1, "a folder of the project is not moved in a dry run", source)
            held = overlay.writing(source, keep=True)
        rename(held, place)
        if not overlay.mine(source):
            overlay.gone.add(os.path.abspath(os.fsdecode(source)))

    def removed_folder(path: Any, **kwargs: Any) -> None:
        if overlay.mine(path) or kwargs.get("dir_fd") is not None:
            return rmdir(path, **kwargs)
        if _exists(overlay.above(path)):
            rmdir(overlay.above(path))
        overlay.gone.add(os.path.abspath(os.fsdecode(path)))
        return None

    def tree_removed(path: Any, *args: Any, **kwargs: Any) -> None:
        if not overlay.mine(path):
            if _exists(overlay.above(path)):
                _clear(overlay.above(path), remove, rmdir)
            overlay.gone.add(os.path.abspath(os.fsdecode(path)))

    os.mkdir, os.remove, os.unlink = made, removed, removed
    os.rename, os.replace, os.rmdir = renamed, renamed, removed_folder  # type: ignore[assignment]
    shutil.rmtree = tree_removed  # type: ignore[assignment]


def _clear(path: str, remove: Callable[[str], None], rmdir: Callable[[str], None]) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        for name in os.listdir(path):
            _clear(os.path.join(path, name), remove, rmdir)
        rmdir(path)
    else:
        remove(path)


def _redirect_marks(overlay: Overlay) -> None:
    """Links, lengths, times and rights: changed in the scratch folder, and left alone elsewhere."""
    symlink, link, truncate, chdir = os.symlink, os.link, os.truncate, os.chdir

    def linked(source: Any, target: Any, *args: Any, **kwargs: Any) -> None:
        whole = os.path.abspath(
            os.path.join(os.path.dirname(os.path.abspath(os.fsdecode(target))), os.fsdecode(source))
        )
        if _exists(overlay.reading(target)):
            raise FileExistsError(17, "File exists", target)
        held = overlay.reading(whole)
        if overlay.mine(held) and _exists(held):
            symlink(held, overlay.writing(target))
        elif os.path.isfile(held):
            # A link out of the scratch folder could be written through.
            _copyfile(held, overlay.writing(target))
        else:
            overlay.refused[f"os.symlink {os.fsdecode(source)!r}"] += 1

    def hard_linked(source: Any, target: Any, **kwargs: Any) -> None:
        held = overlay.reading(source)
        if overlay.mine(held):
            return link(held, overlay.writing(target), **kwargs)
        return _copyfile(held, overlay.writing(target))

    def shortened(path: Any, length: int) -> None:
        truncate(overlay.writing(path, keep=True), length)

    def entered(path: Any) -> None:
        new = not overlay.mine(path) and not _really(os.path.abspath(os.fsdecode(path)))
        chdir(overlay.reading(path) if new else path)

    def kept(plain: Any) -> Any:
        def marked(path: Any, *args: Any, **kwargs: Any) -> None:
            held = overlay.reading(path)
            if overlay.mine(held):
                plain(held, *args, **kwargs)
            elif not _exists(held):
                raise FileNotFoundError(2, "No such file or directory", path)

        return marked

    os.symlink, os.link, os.truncate, os.chdir = linked, hard_linked, shortened, entered  # type: ignore[assignment]
    for name in ("chmod", "utime", "chown", "setxattr"):
        if hasattr(os, name):
            setattr(os, name, kept(getattr(os, name)))


class _Scanned:
    """What ``os.scandir`` gives for a folder and its twin in the scratch folder."""

    def __init__(self, parts: list[Any], gone: set[str]) -> None:
        self._parts, self._gone, self._names = parts, gone, set[str]()
        self._entries = self._each()

    def _each(self) -> Iterator[Any]:
        for part in self._parts:
            for entry in part:
                if entry.name not in self._names and os.path.abspath(entry.path) not in self._gone:
                    self._names.add(entry.name)
                    yield entry

    def __iter__(self) -> Iterator[Any]:
        return self._entries

    def __next__(self) -> Any:
        return next(self._entries)

    def __enter__(self) -> _Scanned:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the folders."""
        for part in self._parts:
            part.close()


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
        below = _really(whole) and whole not in overlay.gone
        there = listdir(path) if below or not _exists(above) else []
        kept = [name for name in there if os.path.join(whole, name) not in overlay.gone]
        more = listdir(above) if _exists(above) else []
        return kept + [name for name in more if name not in kept]

    def scanned(path: Any = ".") -> Any:
        if overlay.mine(path):
            return scandir(path)
        above, whole = overlay.above(path), os.path.abspath(os.fsdecode(path))
        parts = [scandir(above)] if os.path.isdir(above) else []
        if not parts or (_really(whole) and whole not in overlay.gone):
            parts.append(scandir(path))
        return _Scanned(parts, overlay.gone)

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
