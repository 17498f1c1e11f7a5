"""Watches where parameters come from: made before or after an optimizer, read from a checkpoint, written by the script."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch.nn.modules import module as modules

from preflight.dryrun.virtual import private
from preflight.dryrun.virtual.engine.wrappers import local
from preflight.dryrun.virtual.watch.operators import Operators

Fake = private.fake_class()
_IN_PLACE = "add_ sub_ mul_ copy_ lerp_ addcdiv_ addcmul_ _foreach_add_ _foreach_sub_ _foreach_mul_ _foreach_copy_ _foreach_lerp_"


class Origins:
    """What is known of parameters besides their values.

    Args:
        operators: Tells of the operators that write.
        made: The optimizers so far; only their number matters.
    """

    def __init__(self, operators: Operators, made: list[Any]) -> None:
        self.made, self.progress = made, operators.seen.progress
        self._born: dict[int, tuple[weakref.ref[Any], int]] = {}
        self._loaded: dict[int, weakref.ref[Any]] = {}
        self._written: set[int] = set()
        modules.register_module_parameter_registration_hook(self._registered)
        operators.tell(_IN_PLACE, self._wrote)
        self._watch_loading()

    def of(self, parameter: Any) -> dict[str, Any]:
        """Say how many optimizers there were when it was made, and whether it was loaded or written by the script."""
        born = self._born.get(id(parameter))
        loaded = self._loaded.get(id(parameter))
        plain = local(parameter)
        return {
            "made_after": born[1] if born is not None and born[0]() is parameter else None,
            "loaded": loaded is not None and loaded() is parameter,
            "written": isinstance(plain, Fake) and plain.untyped_storage()._cdata in self._written,
        }

    def load(self, module: Any) -> None:
        """The weights of a module stand for weights that were loaded."""
        for parameter in module.parameters():
            self._loaded[id(parameter)] = weakref.ref(parameter)

    def _registered(self, module: Any, name: str, parameter: Any) -> None:
        known = self._born.get(id(parameter))
        if parameter is not None and (known is None or known[0]() is not parameter):
            self._born[id(parameter)] = (weakref.ref(parameter), len(self.made))

    def _wrote(self, name: str, args: Any, kwargs: Any, result: Any) -> None:
        if self.progress.phase == "init":
            return
        for tensor in args[0] if isinstance(args[0], (list, tuple)) else (args[0],):
            self._written.add(tensor.untyped_storage()._cdata)

    def _watch_loading(self) -> None:
        load = torch.nn.Module._load_from_state_dict
        origins = self

        def loaded(module: Any, state: Any, prefix: str, *args: Any) -> Any:
            result = load(module, state, prefix, *args)
            for name, parameter in module._parameters.items():
                if parameter is not None and prefix + name in state:
                    origins._loaded[id(parameter)] = weakref.ref(parameter)
            return result

        torch.nn.Module._load_from_state_dict = loaded
