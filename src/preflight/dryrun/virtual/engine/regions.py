"""Regions that a script compiles: Dynamo is off in a dry run, and what is compiled is only remembered."""

from __future__ import annotations

import functools
from typing import Any

import torch

from preflight.dryrun.virtual.progress import Progress


def install(progress: Progress) -> None:
    """Remember which modules and functions are compiled, by ``torch.compile`` or by a module's own ``compile``."""
    real, of_module = torch.compile, torch.nn.Module.compile

    @functools.wraps(real)
    def compile(model: Any = None, **settings: Any) -> Any:
        if model is None:
            return functools.partial(compile, **settings)
        made = real(model, **settings)
        if settings.get("disable"):
            return made
        if isinstance(model, torch.nn.Module):
            progress.compiled[id(model)] = model
            return made

        @functools.wraps(model)
        def called(*args: Any, **kwargs: Any) -> Any:
            progress.regions += 1
            try:
                return made(*args, **kwargs)
            finally:
                progress.regions -= 1

        progress.compiled[id(called)] = called
        return called

    def compile_module(module: Any, *args: Any, **settings: Any) -> None:
        of_module(module, *args, **settings)
        progress.compiled[id(module)] = module

    torch.compile = compile
    torch.nn.Module.compile = compile_module
