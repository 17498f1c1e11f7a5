"""Says which extra is missing where an integration is used without the package that it is for."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from preflight.errors import UsageError


def needed(name: str, extra: str) -> Any:
    """Import a module of somebody else.

    Raises:
        UsageError: Its package is not installed; the extra of ours that brings it is named.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != name.partition(".")[0]:
            raise
        package = name.partition(".")[0]
        raise UsageError(f"{package} is not installed", f"pip install 'preflight-torch[{extra}]'") from None
