"""Passes of the parts of a model, told in detailed iterations: very many, so that each is told in few instructions.

What does not change from pass to pass is put together once for each part; rows wait until the pass of the model ends.
"""

from __future__ import annotations

import time
import weakref
from typing import Any

from .digests import Digests
from .naming import Names, inner
from .recorder import Recorder

_MOST = 100_000
_now = time.monotonic_ns
_SWITCHES = ("bidirectional", "scale_grad_by_freq", "sparse")
_USUAL = ("affine", "elementwise_affine", "track_running_stats")

Begun = tuple[int, int, str, bool, int, "Part"]
"""A pass that goes on: its number, that of the call it is in, the context, the mode, when it began, and of what it is."""


class Part:
    """What is told of a module at each of its passes, put together once."""

    __slots__ = ("_first", "inside", "module", "name", "told", "version")

    def __init__(self, module: Any, name: str, base: str | None, version: int) -> None:
        self.module = weakref.ref(module)
        self.name = name
        self.version = version
        self.inside = id(inner(module))
        self._first: tuple[weakref.ref[Any], str] | None = None
        more: dict[str, Any] = {"base": base} if base else {}
        first = getattr(module, "batch_first", None)
        if isinstance(first, bool):
            more["batch_first"] = first
        if settings := _settings(module):
            more["settings"] = settings
        # By whether it is in training mode; rows share these, nobody changes them.
        self.told: list[dict[str, Any]] = [
            {"training": mode, "type": type(module).__name__, **more} for mode in (False, True)
        ]

    def first_parameter(self, module: Any) -> Any:
        """The first parameter of the module, as it is now; None where there is none. To search for it takes long."""
        if self._first is not None:
            holder, name = self._first
            held = getattr(holder(), "_parameters", {}).get(name)
            if held is not None:
                return held
        for part in module.modules():
            for name, one in part._parameters.items():
                if one is not None:
                    self._first = weakref.ref(part), name
                    return one
        return None


def _settings(module: Any) -> str:
    """What a layer of torch's was set to that is no size, in words; an attribute of another class could run its code."""
    if not type(module).__module__.startswith("torch.nn.modules."):
        return ""
    held = vars(module)
    found = [word for word in _SWITCHES if held.get(word) is True]
    found += [f"no {word}" for word in _USUAL if held.get(word) is False]
    if held.get("padding_idx") is not None:
        found.append("a row for padding")
    return ", ".join(found)


class Parts:
    """The parts that are known, and the rows of their passes."""

    def __init__(self, recorder: Recorder, names: Names, digests: Digests) -> None:
        self.recorder = recorder
        self.names = names
        self.digests = digests
        self._known: dict[int, Part] = {}
        self._calls: list[tuple[Any, ...]] = []

    def known(self, module: Any) -> Part | None:
        """What is told of a module, None where it is not known or its name may be another one by now."""
        part = self._known.get(id(module))
        if part is not None and part.version == self.names.version and part.module() is module:
            return part
        return None

    def learn(self, module: Any, name: str, base: str | None) -> Part:
        """Put together what is told of a module of this name, and remember it."""
        part = self.known(module)
        if part is None or part.name != name:
            if len(self._known) >= _MOST:
                self._known.clear()  # a program that makes modules as it goes
            part = self._known[id(module)] = Part(module, name, base, self.names.version)
        return part

    def forget(self, module: Any) -> None:
        """Put together what is told of a module once more the next time."""
        self._known.pop(id(module), None)

    def enter(self, part: Part, training: bool, args: Any) -> Begun:
        """A pass of a part begins."""
        recorder = self.recorder
        thread = recorder.thread
        number = recorder.number()
        stack = thread.stack
        parent = stack[-1] if stack else -1
        stack.append(number)
        self.digests.entering(number, part.name, args)
        return number, parent, recorder.context(), training, _now(), part

    def leave(self, begun: Begun, output: Any) -> None:
        """A pass of a part ends."""
        recorder = self.recorder
        number, parent, context, training, began, part = begun
        self.digests.leaving(number, part.name, output)
        ended = _now()
        thread = recorder.thread
        stack = thread.stack
        if stack and stack[-1] == number:
            stack.pop()
        else:
            recorder.unwind(number)
        self._calls.append((
            number, recorder.number(), began, ended - began, recorder.iteration, recorder.step, "module", part.name,
            parent, thread.ident, None, context, part.told[training], None, None,
        ))  # fmt: skip

    def hand_over(self) -> None:
        """Hand over the rows of the passes that have ended."""
        if self._calls:
            calls, self._calls = self._calls, []
            self.recorder.put_all("call", calls)
        self.digests.hand_over()
