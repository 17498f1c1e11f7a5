"""Calls of torch's own functions: every public one, in detailed iterations, when asked for.

The functions are those that torch itself lists as overridable. Each is wrapped where it lives, so that code which looks
it up by module sees the wrapper; methods of tensors and operators (``x @ y``) are not seen.
Outside detailed iterations and inside backward passes a wrapper does nothing but call.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from .digests import dtype_of
from .entry import Entry
from .patching import Patches, watched
from .recorder import Recorder

_ROOMS = ("torch", "torch.functional", "torch.nn.functional", "torch.linalg", "torch.special", "torch.fft")
_MOST = 8
_PLAIN = (int, float, bool, str, type(None))


class Api:
    """Watches torch's public functions."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder

    def install(self, patches: Patches) -> None:
        """Put the wrappers in place."""
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # deprecated functions are listed too, and say so when they are looked at
            listed = sys.modules["torch.overrides"].get_overridable_functions()
        wanted = {id(function) for room in listed.values() for function in room}
        done: dict[int, Any] = {}
        for room in _ROOMS:
            module = sys.modules.get(room)
            for word, function in list(vars(module).items()) if module else ():
                if word.startswith("_") or id(function) not in wanted or isinstance(function, type):
                    continue
                if getattr(function, "_preflight_watched", False):
                    continue
                # One function under two names stays one: torch compares some of them with "is".
                if id(function) not in done:
                    done[id(function)] = self._watched(f"api.{room}.{word}", function)
                patches.replace(module, word, done[id(function)])

    def _watched(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        recorder = self.recorder

        def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Entry:
            return recorder.enter(name, "", self._told(args, kwargs), placed=False)

        def after(entry: Entry | None, value: Any, error: BaseException | None) -> None:
            if entry is not None:
                recorder.leave(entry, {"out": self._tensors((value,))} if error is None else None, error)

        return watched(recorder, original, before, after, self._now)

    def _now(self) -> bool:
        """Whether calls are told now: in detailed iterations, outside of backward passes."""
        return self.recorder.detail and not self.recorder.backward_depth

    def _told(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        named = {key: value for key, value in kwargs.items() if isinstance(value, _PLAIN)}
        told: dict[str, Any] = {"in": self._tensors(args), **named}
        plain = [value for value in args if isinstance(value, _PLAIN)]
        if plain:
            told["args"] = plain[:_MOST]
        return told

    def _tensors(self, values: tuple[Any, ...]) -> list[Any]:
        """Dtype and shape of the first few tensors, those in lists too."""
        kind = self.recorder.torch.Tensor
        found = []
        for value in values:
            for one in value if isinstance(value, (tuple, list)) else (value,):
                if isinstance(one, kind):
                    found.append([dtype_of(one), list(one.shape)])
                    if len(found) == _MOST:
                        return found
        return found
