"""Puts a watching function around one of the program's, and takes it away again."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import FrameType, FunctionType
from typing import Any

from .entry import Entry, Work
from .recorder import Recorder

Before = Callable[[tuple[Any, ...], dict[str, Any]], "Entry | None"]
After = Callable[["Entry | None", Any, "BaseException | None"], None]
_UNSEEN = " (importlib._bootstrap)"


class Patches:
    """What was replaced, and by what, so that it can be put back."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._replaced: list[tuple[Any, str, Any, Any]] = []
        self._handles: list[Any] = []
        self._lasting: set[tuple[int, str]] = set()
        self._away: list[
            tuple[Any, Any, Any]
        ] = []  # hooks that are set aside: where they were, their number, themselves

    def keep(self, handle: Any) -> None:
        """Remember a handle whose ``remove`` takes a hook away."""
        self._handles.append(handle)

    def replace(self, owner: Any, name: str, new: Any, lasting: bool = False) -> None:
        """Set an attribute and remember what it was; one that is ``lasting`` stays while the others are set aside."""
        if lasting:
            self._lasting.add((id(owner), name))
        if isinstance(new, FunctionType):
            unseen_by_warnings(new)
        self._replaced.append(
            (owner, name, owner.__dict__[name] if isinstance(owner, type) else getattr(owner, name), new)
        )
        setattr(owner, name, new)

    def around(self, owner: Any, name: str, before: Before, after: After | None = None) -> None:
        """Call ``before`` and ``after`` around a function or method; a missing one is left alone.

        Nothing is done while the compiler traces, inside the recorder's own work, or after the part has failed often.
        """
        original = owner.__dict__.get(name) if isinstance(owner, type) else getattr(owner, name, None)
        if original is None or getattr(original, "_preflight_watched", False):
            return
        if not callable(original):
            return
        self.replace(owner, name, watched(self.recorder, original, before, after))

    def alias(self, owner: Any, name: str, other: Any, lasting: bool = False) -> None:
        """Give another place that has a name the function that now stands under it in the first."""
        if hasattr(other, name):
            self.replace(other, name, getattr(owner, name), lasting)

    def set_aside(self) -> None:
        """Put functions of modules, and hooks on all modules, back as the program would have them, for a while.

        Methods stay as they are: a class whose attributes change again and again is no longer remembered by Python's
        caches, and the program's calls of it would become slower for good. Of hooks that the program has set beside
        ours the order would change: then ours stay.
        """
        for owner, name, old, new in reversed(self._replaced):
            if self._goes(owner, name) and getattr(owner, name, None) is new:
                setattr(owner, name, old)
        for handle in self._handles:
            held = getattr(handle, "hooks_dict_ref", lambda: None)()
            if held is not None and len(held) == 1 and handle.id in held and _of_passes(held):
                self._away.append((held, handle.id, held.pop(handle.id)))

    def bring_back(self) -> None:
        """Put in place again what was set aside, where the program has put nothing of its own there meanwhile."""
        for owner, name, old, new in self._replaced:
            if self._goes(owner, name) and getattr(owner, name, None) is old:
                setattr(owner, name, new)
        for held, number, hook in self._away:
            held[number] = hook
        self._away.clear()

    def _goes(self, owner: Any, name: str) -> bool:
        return not isinstance(owner, type) and (id(owner), name) not in self._lasting

    def undo(self) -> None:
        """Put everything back that still is as it was left."""
        for handle in self._handles:
            handle.remove()
        for owner, name, old, new in reversed(self._replaced):
            now = owner.__dict__.get(name) if isinstance(owner, type) else getattr(owner, name, None)
            if now is new:
                setattr(owner, name, old)
        self._replaced.clear()
        self._handles.clear()


def watched(
    recorder: Recorder,
    original: Callable[..., Any],
    before: Before,
    after: After | None,
    now: Callable[[], bool] | None = None,
) -> Callable[..., Any]:
    """A function that does what the original does and tells the recorder before and after, where ``now`` says so."""
    compiling = recorder.torch.compiler.is_compiling
    where = getattr(original, "__qualname__", str(original))

    def left(entry: Entry | None, value: Any, error: BaseException | None) -> None:
        if entry is not None:
            recorder.leave(entry, None, error)

    told = after or left

    @functools.wraps(original)
    def watched_call(*args: Any, **kwargs: Any) -> Any:
        if compiling() or recorder.away:
            return original(*args, **kwargs)
        if (now is not None and not now()) or not recorder.active() or recorder.gave_up(where):
            return original(*args, **kwargs)
        entry: Entry | None = None
        with Work(recorder, where):
            entry = before(args, kwargs)
        try:
            value = original(*args, **kwargs)
        except BaseException as error:
            with Work(recorder, where):
                told(entry, None, error)
            raise
        with Work(recorder, where):
            told(entry, value, None)
        return value

    watched_call._preflight_watched = True  # type: ignore[attr-defined]
    return watched_call


def _of_passes(held: Any) -> bool:
    """Whether hooks are those on forward passes of all modules; those on steps count them meanwhile."""
    hooks = sys.modules["torch.nn.modules.module"]
    return any(held is getattr(hooks, name, None) for name in ("_global_forward_pre_hooks", "_global_forward_hooks"))


def unseen_by_warnings(function: FunctionType) -> None:
    """Let what a function calls warn at the place of its caller: Python passes by frames of such a name in looking for it."""
    code = function.__code__
    if not code.co_filename.endswith(_UNSEEN):
        function.__code__ = code.replace(co_filename=code.co_filename + _UNSEEN)


def seen_by_warnings(frame: FrameType) -> FrameType:
    """Return the first frame, from one outwards, that is none of a watching function: where a warning would be placed."""
    while frame.f_back is not None and frame.f_code.co_filename.endswith(_UNSEEN):
        frame = frame.f_back
    return frame
