"""Configurations of the pretrained models that a script names: the catalog's, so that no network is needed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_NAME = re.compile(r"""["'=\s]([A-Za-z0-9][\w.-]*(?:/[\w.-]+)?)(?=["'\s]|$)""")
_MOST = 4000  # so many different words of a script are looked up


def named(script: str, arguments: Sequence[str], assumed: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Return the configuration of each model that the script or its arguments name.

    Args:
        script: The script's path.
        arguments: Its command line.
        assumed: What the person said: name of a model to the path of its ``config.json``, or to a model of the catalog.

    Raises:
        InputError: A file that the person named cannot be read.
    """
    from preflight.catalog.architectures import find_name, model_file

    try:
        text = Path(script).read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    found: dict[str, dict[str, Any]] = {}
    for word in list(dict.fromkeys(_NAME.findall(" " + " ".join(arguments) + "\n" + text)))[:_MOST]:
        # A plain word is a model's name only where it has a digit or a dash: "bert-base-cased", "gpt2".
        if "/" not in word and not any(mark.isdigit() or mark == "-" for mark in word):
            continue
        name = find_name(word)
        if name is not None:
            content = model_file(name)
            if content.library == "transformers" and content.config is not None:
                found[word] = content.configuration()
    for word, path in assumed.items():
        found[word] = _catalogued(path) or _read(path)
    return found


def _catalogued(name: str) -> dict[str, Any] | None:
    """Return the configuration of a model of the catalog, where no file has that name."""
    from preflight.catalog.architectures import find_name, model_file

    found = None if Path(name).exists() else find_name(name)
    content = model_file(found) if found is not None else None
    if content is None or content.library != "transformers" or content.config is None:
        return None
    return content.configuration()


def _read(path: str) -> dict[str, Any]:
    import json

    from preflight.errors import InputError

    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(
            f"--assume: {path}: {error.strerror or error}",
            "CONFIG is the path of a config.json, or a model of the catalog (preflight list models)",
        ) from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON: {error}") from None
    if not isinstance(content, dict):
        raise InputError(f"{path} holds no configuration: an object is expected")
    return content
