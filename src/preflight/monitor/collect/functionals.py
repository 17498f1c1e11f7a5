"""Looks at what functions of ``torch.nn.functional`` are given, which their modules call, too."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from .patching import Patches
from .plain import DEVICES, plain_types, simple
from .recorder import Recorder

_MOST_NUMBERS = 1 << 20
Look = Callable[[tuple[Any, ...], dict[str, Any]], None]


def watch(
    recorder: Recorder,
    patches: Patches,
    name: str,
    look: Look | None,
    made: Callable[[Any], None] | None = None,
    always: bool = False,
) -> None:
    """Call ``look`` before a function of that name where gradients are recorded: in detailed iterations, or ``always``.

    ``made`` is called with what it gave.

    Scripts that are compiled still see the original one.
    """
    functional = sys.modules["torch.nn.functional"]
    original = getattr(functional, name, None)
    if original is None:
        return
    torch = recorder.torch
    compiling = torch.compiler.is_compiling

    @functools.wraps(original)
    def watching(*args: Any, **kwargs: Any) -> Any:
        if compiling() or not (always or recorder.detail) or not torch.is_grad_enabled() or not recorder.active():
            return original(*args, **kwargs)
        if look is not None:
            with recorder.work(name):
                look(args, kwargs)
        value = original(*args, **kwargs)
        if made is not None:
            with recorder.work(name):
                made(value)
        return value

    watching.__prepare_scriptable__ = lambda: original  # type: ignore[attr-defined]
    patches.replace(functional, name, watching)


def readable(recorder: Recorder, one: Any) -> bool:
    """Whether the numbers of a tensor can be compared where they lie."""
    if type(one) not in plain_types(recorder.torch) or not simple(one) or one.device.type not in DEVICES:
        return False
    return bool(0 < one.numel() <= _MOST_NUMBERS)
