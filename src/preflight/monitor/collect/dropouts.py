"""Dropout called as a function: noticed where it drops although the model is being evaluated.

``F.dropout`` drops unless it is told ``training=False``: it does not know of the mode of the module that calls it.
What says ``training=True`` itself is left alone: it is meant. A module gives its own mode, which ``eval()`` reaches only
where it is a part of the model: one that is made in a forward pass, or kept in a list, goes on dropping.
A call that does not drop, or within a model in training mode, costs a few comparisons.
A module that reads its own mode for the call, ``F.dropout(x, p, training=self.training)``, drops as one with a layer for
it does: it is counted with these.

``scaled_dot_product_attention`` drops at the rate it is given, whatever the mode is. Tensors that answer for themselves
know it by its identity, and another function in its place would give them other results. So it is watched only within
the passes of a model that is in evaluation mode, and it stands in its place again while it is called.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from .entry import Entry
from .modules import Forwards
from .patching import Patches
from .places import here
from .recorder import Recorder
from .scope import owner_of

_FUNCTIONS = ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout")
_FUSED = "scaled_dot_product_attention"
_FUSED_RATE = 4  # where the rate stands among its arguments
_MODULES = "torch.nn.modules.dropout"
_OF_MODULE = 4  # arguments that a module gives: what to drop of, its rate, its mode, and whether in place
_MODE = "training"
_MOST_PLACES = 32
_FRAMES = 12


class Dropouts:
    """Watches the functions of ``torch.nn.functional`` that drop."""

    def __init__(self, recorder: Recorder, forwards: Forwards) -> None:
        self.recorder = recorder
        self.forwards = forwards
        self._told: set[tuple[str | None, str]] = set()

    def install(self, patches: Patches) -> None:
        """Put the watching functions in place; scripts that are compiled still see the original ones."""
        functional = sys.modules["torch.nn.functional"]
        for name in _FUNCTIONS:
            original = getattr(functional, name, None)
            if original is not None:
                patches.replace(functional, name, self._dropping(original, name))
        fused = getattr(functional, _FUSED, None)
        if fused is not None:
            watching = self._attending(fused, functional)
            self.forwards.evaluating = lambda began: _put(functional, watching if began else fused, (fused, watching))

    def _attending(self, original: Callable[..., Any], functional: Any) -> Callable[..., Any]:
        compiling = self.recorder.torch.compiler.is_compiling
        opened = self.forwards.thread

        @functools.wraps(original)
        def attending(*args: Any, **kwargs: Any) -> Any:
            if compiling() or not opened.open:
                return original(*args, **kwargs)
            self._look(_FUSED, kwargs.get("dropout_p", args[_FUSED_RATE] if len(args) > _FUSED_RATE else 0.0))
            there = _put(functional, original, (attending,))
            try:
                return original(*args, **kwargs)
            finally:
                if there:
                    _put(functional, attending, (original,))

        return attending

    def _dropping(self, original: Callable[..., Any], name: str) -> Callable[..., Any]:
        compiling = self.recorder.torch.compiler.is_compiling
        opened = self.forwards.thread

        @functools.wraps(original)
        def dropping(*args: Any, **kwargs: Any) -> Any:
            # Where training is given, by its place or its name, the program has decided; a module gives its own mode so.
            module = len(args) == _OF_MODULE and args[2] is True and not kwargs
            if opened.open and not compiling():
                if module or (len(args) < 3 and "training" not in kwargs):
                    root = opened.open[0][0]()
                    if root is not None and not root.training:  # in a training there is nothing more to do
                        self._look(name, kwargs.get("p", args[1] if len(args) > 1 else 0.5), module)
                else:
                    rate = kwargs.get("p", args[1] if len(args) > 1 else 0.5)
                    if isinstance(rate, float) and rate > 0:
                        self._by_mode(sys._getframe(1), kwargs["training"] if "training" in kwargs else args[2])
            return original(*args, **kwargs)

        dropping.__prepare_scriptable__ = lambda: original  # type: ignore[attr-defined]
        return dropping

    def _look(self, name: str, rate: Any, module: bool = False) -> None:
        first = self.forwards.thread.open[0]
        root, entry = first[0](), first[1]
        if root is None or root.training or not isinstance(entry, Entry):
            return
        if not isinstance(rate, float) or rate <= 0 or not self.recorder.active():
            return
        with self.recorder.work("dropout"):
            frame: FrameType | None = sys._getframe(2)
            if module:
                frame = self._beyond(frame)
            if frame is not None:
                self._tell(name, rate, frame, entry.object)

    def _by_mode(self, frame: FrameType, dropping: Any) -> None:
        """Have a module that drops by its own mode, which its code reads, counted as a part that drops."""
        if _MODE not in frame.f_code.co_names or frame.f_globals.get("__name__") == _MODULES:
            return  # a layer of torch's is counted anyway, and to ask a frame whose it is takes longer than to drop
        owner = owner_of(frame)
        if not isinstance(owner, self.recorder.torch.nn.Module) or type(owner).__module__ == _MODULES:
            return
        if owner.training is dropping:
            self.forwards.modal.by_mode(owner)

    def _beyond(self, frame: FrameType | None) -> FrameType | None:
        """Where a dropout is called from that is no part of the model; None where it is one, or something else calls."""
        own = owner_of(frame) if frame is not None else None
        if frame is None or type(own).__module__ != _MODULES or self.forwards.names.of(own) is not None:
            return None
        while frame is not None and owner_of(frame) is own:
            frame = frame.f_back  # what calls a module is a method of it, too
        return frame

    def _tell(self, name: str, rate: float, frame: FrameType | None, root: str) -> None:
        """Note the call, unless the part of the model that makes it is in training mode: that was switched on by hand."""
        module = self.recorder.torch.nn.Module
        owner: Any = None
        for _ in range(_FRAMES):
            if frame is None:
                break
            held = owner_of(frame)
            if isinstance(held, module):
                owner = held
                break
            frame = frame.f_back
        if owner is None or owner.training:
            return
        place = here()
        if (place, name) in self._told or len(self._told) >= _MOST_PLACES:
            return
        self._told.add((place, name))
        seen = {"function": name, "p": rate, "model": root, "type": type(owner).__name__}
        self.recorder.event("dropout", self.forwards.names.of(owner) or type(owner).__name__, seen, place)


def _put(functional: Any, function: Callable[..., Any], instead: tuple[Callable[..., Any], ...]) -> bool:
    """Put a function in the place of fused attention where one of ours, or the original one, stands there."""
    if getattr(functional, _FUSED, None) not in instead:
        return False  # the program has put one of its own there
    setattr(functional, _FUSED, function)
    return True
