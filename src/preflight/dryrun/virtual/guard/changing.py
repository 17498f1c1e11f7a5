"""Folders that are made, files and folders that are removed or renamed, while a script runs over a scratch folder."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from typing import Any

from preflight.dryrun.virtual.guard.overlay import Overlay, exists

_mkdir, _remove, _rename, _rmdir = os.mkdir, os.remove, os.rename, os.rmdir


def install(overlay: Overlay) -> None:
    """Make, remove and rename in the scratch folder; what lies elsewhere is noted as gone and stays."""
    os.mkdir = _making(overlay)
    os.remove = os.unlink = _removing(overlay)
    os.rename = os.replace = _renaming(overlay)
    os.rmdir = _removing_folders(overlay)
    shutil.rmtree = _removing_trees(overlay)  # type: ignore[assignment]


def _error(number: int, path: Any) -> OSError:
    """Return the error of the system with that number: Python makes it one of its own kind."""
    return OSError(number, os.strerror(number), path)


def _making(overlay: Overlay) -> Callable[..., None]:
    def make(path: Any, mode: int = 0o777, **kwargs: Any) -> None:
        if overlay.mine(path) or kwargs.get("dir_fd") is not None:
            return _mkdir(path, mode, **kwargs)
        above, whole = overlay.above(path), os.path.abspath(os.fsdecode(path))
        if overlay.there(whole):
            raise _error(errno.EEXIST, path)
        if not overlay.there(os.path.dirname(whole)):
            raise _error(errno.ENOENT, path)
        overlay.gone.discard(whole)
        return _make_all(above)

    return make


def _make_all(path: str) -> None:
    """Make a folder of the scratch folder with those above it, which may lie elsewhere only."""
    if not exists(os.path.dirname(path)):
        _make_all(os.path.dirname(path))
    _mkdir(path)


def _removing(overlay: Overlay) -> Callable[..., None]:
    def remove(path: Any, **kwargs: Any) -> None:
        if overlay.mine(path) or kwargs.get("dir_fd") is not None:
            return _remove(path, **kwargs)
        above, whole = overlay.above(path), os.path.abspath(os.fsdecode(path))
        if not overlay.there(whole):
            raise _error(errno.ENOENT, path)
        if exists(above):
            _remove(above)
        overlay.gone.add(whole)
        return None

    return remove


def _renaming(overlay: Overlay) -> Callable[..., None]:
    def rename(source: Any, target: Any, **kwargs: Any) -> None:
        if any(folder is not None for folder in kwargs.values()):
            return _rename(source, target, **kwargs)
        place = overlay.writing(target)
        held = overlay.reading(source)
        if held is source and not overlay.mine(source):
            if os.path.isdir(source):
                raise PermissionError(1, "a folder of the project is not moved in a dry run", source)
            held = overlay.writing(source, keep=True)
        _rename(held, place)
        if not overlay.mine(source):
            overlay.gone.add(os.path.abspath(os.fsdecode(source)))
        return None

    return rename


def _removing_folders(overlay: Overlay) -> Callable[..., None]:
    def remove_folder(path: Any, **kwargs: Any) -> None:
        if overlay.mine(path) or kwargs.get("dir_fd") is not None:
            return _rmdir(path, **kwargs)
        above, whole = overlay.above(path), os.path.abspath(os.fsdecode(path))
        if not overlay.there(whole):
            raise _error(errno.ENOENT, path)
        if os.listdir(path):  # of both places, as the script sees them
            raise _error(errno.ENOTEMPTY, path)
        if exists(above):
            _rmdir(above)
        overlay.gone.add(whole)
        return None

    return remove_folder


def _removing_trees(overlay: Overlay) -> Callable[..., None]:
    def remove_tree(path: Any, ignore_errors: bool = False, onerror: Any = None, **kwargs: Any) -> None:
        whole = os.path.abspath(os.fsdecode(path))
        if not overlay.there(whole):
            if not (ignore_errors or onerror or kwargs.get("onexc")):
                raise _error(errno.ENOENT, path)
        elif overlay.mine(path):
            _clear(whole)
        else:
            if exists(overlay.above(path)):
                _clear(overlay.above(path))
            overlay.gone.add(whole)
            overlay.emptied.add(whole)

    return remove_tree


def _clear(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        for name in os.listdir(path):
            _clear(os.path.join(path, name))
        _rmdir(path)
    else:
        _remove(path)
