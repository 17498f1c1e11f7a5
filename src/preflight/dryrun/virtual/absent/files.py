"""Files and folders of data that are missing: plausible ones are written to the scratch folder, where every reader finds them.

What a folder would hold is read off the code that asks for it: the endings that it names, whether it expects folders in
the folder. Where the code says nothing, and for files whose form cannot be known (pickles, archives, checkpoints),
nothing is made up, and the script meets the usual error.
"""

from __future__ import annotations

import builtins
import glob
import io
import os
import pathlib
import re
from collections.abc import Callable
from typing import Any

from preflight.dryrun.virtual.absent import boxes, callers, clues, contents, formats, uses

_BY_LIBRARIES = formats.PICTURES + formats.SOUNDS + formats.TEXTS + formats.ARRAYS + (".csv", ".tsv")
"""What a library opens only where it was told to; it may look for a file of settings by itself."""
_MAGIC = re.compile(r"[*?\[]")
_PER_FOLDER = 30
_list = os.listdir


class Imagined:
    """Makes what is missing.

    Args:
        owns: Whether a file is the person's own code.
        overlay: The scratch folder (``guard.Overlay``).
        arguments: The script's command line.
        assume: Is given a line for what was made.
        described: Whether the person said what a batch holds; then nothing but texts is made.
    """

    def __init__(
        self,
        owns: Callable[[str], bool],
        overlay: Any,
        arguments: list[str],
        assume: Callable[[str], None],
        described: bool = False,
    ) -> None:
        self.described = described
        self.owns, self.overlay, self.assume = owns, overlay, assume
        self.named = [os.path.abspath(value) for value in clues.data_arguments(arguments)]
        self.made: set[str] = set()
        self._busy = False

    def install(self) -> None:
        """Wrap what lists, looks and opens."""
        os.listdir, os.scandir = self._listing(os.listdir), self._listing(os.scandir)
        self._open()
        self._globs()
        for owner, name in (
            *((os.path, name) for name in ("exists", "isfile", "isdir")),
            *((pathlib.Path, name) for name in ("exists", "is_file", "is_dir")),
        ):
            setattr(owner, name, self._looking(getattr(owner, name)))

    def _listing(self, plain: Any) -> Any:
        def listed(path: Any = ".") -> Any:
            try:
                found = plain(path)
            except FileNotFoundError:
                if isinstance(path, (bytes, int)) or not self.wanted(path) or not self.folder(path):
                    raise
                return plain(path)
            # A folder that the project keeps for data, and keeps empty, is as good as missing.
            if (
                isinstance(path, (str, os.PathLike))
                and self._kept_empty(os.path.abspath(path))
                and self.wanted(os.fspath(path))
            ):
                self.folder(path)
                return plain(path)
            return found

        return listed

    def _kept_empty(self, whole: str) -> bool:
        """Whether a folder of the project holds nothing but its mark for version control."""
        if whole in self.made or whole in self.overlay.gone or self.overlay.mine(whole):
            return False
        if os.path.lexists(self.overlay.above(whole)) or clues.RESULTS.search(os.path.basename(whole)):
            return False
        try:
            return all(name.startswith(".") or name.lower().startswith("readme") for name in _list(whole))
        except OSError:
            return False

    def _open(self) -> None:
        plain = builtins.open

        def opened(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
            try:
                return plain(file, mode, *args, **kwargs)
            except FileNotFoundError:
                if "r" not in mode or "+" in mode or isinstance(file, (bytes, int)) or not self.file(os.fspath(file)):
                    raise
                return plain(file, mode, *args, **kwargs)

        builtins.open = io.open = opened

    def _globs(self) -> None:
        plain, lazy = glob.glob, glob.iglob
        below, deep = pathlib.Path.glob, pathlib.Path.rglob

        def globbed(pathname: Any, **kwargs: Any) -> Any:
            self.pattern(pathname, kwargs.get("root_dir"))
            return plain(pathname, **kwargs)

        def globbed_lazily(pathname: Any, **kwargs: Any) -> Any:
            self.pattern(pathname, kwargs.get("root_dir"))
            return lazy(pathname, **kwargs)

        def path_globbed(path: Any, pattern: Any, **kwargs: Any) -> Any:
            self.pattern(os.path.join(path, pattern), None)
            return below(path, pattern, **kwargs)

        def path_globbed_deep(path: Any, pattern: Any, **kwargs: Any) -> Any:
            self.pattern(os.path.join(path, "**", pattern), None)
            return deep(path, pattern, **kwargs)

        glob.glob, glob.iglob = globbed, globbed_lazily
        pathlib.Path.glob, pathlib.Path.rglob = path_globbed, path_globbed_deep  # type: ignore[method-assign,assignment]

    def _looking(self, plain: Any) -> Any:
        def looked(path: Any, **kwargs: Any) -> bool:
            if plain(path, **kwargs) or self._busy:
                return bool(plain(path, **kwargs))
            if not isinstance(path, (str, os.PathLike)) or not self._needed(os.fspath(path)):
                return False
            return bool(plain(path, **kwargs))

        return looked

    def _needed(self, path: Any) -> bool:
        """Make what the code cannot do without; return whether there is something now."""
        # What has a hidden name is somebody's settings, or a repository's history: no data.
        if isinstance(path, bytes) or os.path.basename(path).startswith("."):
            return False
        frame = callers.asker()
        if frame is None:
            return False
        ending = os.path.splitext(path)[1].lower()
        name = frame.f_code.co_filename
        if ending == ".txt" and self.beside(path):
            return True
        if self.owns(name):
            needed = clues.needing(name).get(frame.f_lineno)
            if needed is None or not (needed or ending in formats.TEXTS + formats.TABLES):
                return False
            return self.file(path) if ending else self.folder(path)
        if "importlib" in name:
            return False
        if ending in _BY_LIBRARIES and clues.needing(name).get(frame.f_lineno) and self.file(path):
            return True  # a reader that looks before it reads
        if not self.under_named(path):
            return False
        return self.file(path) if ending else self.folder(path, folders=True)

    def under_named(self, path: str) -> bool:
        """Whether a path is one that the command line names as data, or lies in one."""
        whole = os.path.abspath(path)
        return any(whole == name or whole.startswith(name + os.sep) for name in self.named)

    def wanted(self, path: str) -> bool:
        """Whether the person's code asks for a folder, or its command line names it."""
        return callers.asks(self.owns) or (self.under_named(path) and callers.own_frame(self.owns) is not None)

    def pattern(self, pathname: Any, root: Any) -> None:
        """Make what a pattern is to find, where the folder that it names is missing."""
        if self.described or isinstance(pathname, bytes) or not callers.asks(self.owns):
            return
        whole = os.path.abspath(os.path.join(root or "", os.fspath(pathname)))
        parts = whole.split(os.sep)
        first = next((number for number, part in enumerate(parts) if _MAGIC.search(part)), None)
        if first is None:
            return
        folder, last = os.sep.join(parts[:first]) or os.sep, parts[-1]
        if os.path.lexists(folder) and folder not in self.made and not self._kept_empty(folder):
            return
        stem, ending = os.path.splitext(last)
        if _MAGIC.search(ending) or not ending:
            found = clues.endings(callers.asker(), folder)
        else:
            found = (ending.lower(),) if ending.lower() in clues.KNOWN else ()
        if not found:
            return
        if not _MAGIC.search(stem):
            if first == len(parts) - 1:
                self.made.add(folder)
                self._write(os.path.join(folder, stem + found[0]))
                self.assume(
                    f"pictures such as {_shown(formats.kin(os.path.join(folder, stem + found[0])))} are missing: black ones took their place"
                    if found[0] in formats.PICTURES
                    else f"{_shown(os.path.join(folder, last))} is missing: a file *{found[0]} took its place"
                )
        elif folder not in self.made:
            self.fill(folder, found[0], "*" in "".join(parts[first:-1]), stem)

    def folder(self, path: Any, folders: bool = False) -> bool:
        """Make a folder; return whether its content could be told and is asked for.

        Args:
            path: Its path.
            folders: Whether pictures lie in folders, one for each class.
        """
        frame = callers.asker()
        own = callers.own_frame(self.owns)
        found = clues.endings(frame, os.fspath(path)) or clues.endings(own, os.fspath(path))
        whole = os.path.abspath(path)
        if (
            self.described
            or not found
            or whole in self.overlay.gone
            or (os.path.lexists(path) and not self._kept_empty(whole))
        ):
            return False
        folders = folders or any(f is not None and uses.wants_folders(f) for f in (frame, own))
        self.fill(os.path.abspath(path), found[0], folders)
        return True

    def fill(self, folder: str, ending: str, folders: bool, stem: str = "*") -> None:
        """Write a folder of files; their names say train, val and test, for code that goes by names."""
        count = 0
        for split in ("train", "val", "test"):
            for number in range(7 * _PER_FOLDER):
                name = f"{split}_{number:04d}" if stem == "*" else _MAGIC.sub("", stem) + f"_{split}_{number:04d}"
                within = (f"class_{number % 10}",) if folders else ()
                self._write(os.path.join(folder, *within, name + ending))
                count += 1
        self.made.add(folder)
        shape = f" of {formats.WIDTH} x {formats.HEIGHT}" if ending in formats.PICTURES else ""
        self.assume(
            f"folder {_shown(folder)} is missing: "
            f"{count} files *{ending}{shape} took its place{', in 10 folders' if folders else ''}"
        )

    def _write(self, path: str, content: bytes | None = None) -> bytes | None:
        """Write one file, with what its form says where nothing is given, and return that; equal ones share it."""
        above = self.overlay.above(path)
        self._busy = True
        try:
            content = contents.content(path, self.owns) if content is None else content
            if content is None:
                return None
            _make_folders(os.path.dirname(above))
            first = os.path.join(self.overlay.scratch, f"like-{abs(hash(content)):x}")
            if not os.path.lexists(first):
                with builtins.open(first, "wb") as file:
                    file.write(content)
            if not os.path.lexists(above):
                os.link(first, above)
        finally:
            self._busy = False
        return content

    def beside(self, path: str) -> bool:
        """Make the text that belongs to a picture which was made up; return whether there is one."""
        note = None if os.path.lexists(path) or self.described else boxes.of_picture(path, self.made)
        if note is None:
            return False
        self._write(os.path.abspath(path), note.encode())
        self.assume(
            f"texts such as {_shown(os.path.join(os.path.dirname(path), '*.txt'))} are missing: classes and boxes of "
            f"{len(note.splitlines())} objects for each picture that took a missing one's place"
        )
        return True

    def file(self, path: str) -> bool:
        """Make a file, if it is the person's code that reads it and its form can be told."""
        ending = os.path.splitext(path)[1].lower()
        if ending not in clues.KNOWN or os.path.lexists(path) or os.path.abspath(path) in self.overlay.gone:
            return False
        if os.path.dirname(path).endswith((".dist-info", ".egg-info")):
            return False  # what an installed package says of itself; some of it may be left out
        if self.described and ending not in formats.TEXTS + formats.TABLES:
            return False
        readable = ending in _BY_LIBRARIES or (ending == ".json" and contents.by_coco())
        if not callers.asks(self.owns) and not (readable and callers.own_frame(self.owns) is not None):
            return False
        content = self._write(os.path.abspath(path))
        if content is None:
            return False
        if ending in formats.PICTURES:
            kind = "classes" if formats.is_mask(path) else "black"
            self.assume(
                f"pictures such as {formats.kin(path)} are missing: {kind} ones of {formats.WIDTH} x {formats.HEIGHT}"
            )
        elif ending in formats.SOUNDS:
            self.assume(f"sounds such as {formats.kin(path)} are missing: three seconds of silence took their place")
        elif ending in formats.ARRAYS:
            self.assume(f"arrays such as {formats.kin(path)} are missing: zeros took their place")
        elif ending == ".json" and content.startswith(b"{"):
            self.assume(f"{path} is missing: a document with the parts that the code asks for took its place")
        else:
            self.assume(f"{path} is missing: {formats.ROWS} plausible lines took its place")
        return True


def _make_folders(path: str) -> None:
    if not os.path.lexists(path):
        _make_folders(os.path.dirname(path))
        os.mkdir(path)


def _shown(path: str) -> str:
    near = os.path.relpath(path)
    return path if near.startswith("..") else near
