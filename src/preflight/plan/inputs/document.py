"""The YAML file of a plan: read with the place of every value, so that an error names file and line."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from preflight.errors import InputError, UsageError, nearest
from preflight.plan.inputs.form import KEYS, Key, names_in, sections
from preflight.plan.inputs.settings import Said, Settings, as_number, said

if TYPE_CHECKING:
    import yaml

MOST_BYTES = 1_000_000
_FORM = "a file looks like: model: {size_billions: 7, batch_size: 32}"


def read_settings(path: str) -> Settings:
    """Return what a file says.

    Raises:
        InputError: The file is missing or is not YAML.
        UsageError: A key is unknown, or a value cannot be; the message names the line.
    """
    try:
        if os.path.isdir(path):
            raise InputError(f"{path} is a folder", "name a YAML file")
        with open(path, "rb") as file:
            data = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        raise InputError(f"{path} is not there", _near(path)) from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from None
    if len(data) > MOST_BYTES:
        raise InputError(f"{path} is too large for the settings of a plan")
    try:
        return settings_in(data.decode("utf-8-sig"), path)
    except UnicodeDecodeError:
        raise InputError(f"{path} is not text in UTF-8", "name a YAML file with the settings of a plan") from None


def _near(path: str) -> str | None:
    try:
        found = nearest(os.path.basename(path), os.listdir(os.path.dirname(path) or "."))
    except OSError:
        return None
    return f"did you mean {os.path.join(os.path.dirname(path), found)}?" if found else None


def settings_in(text: str, path: str = "the settings") -> Settings:
    """Return what a text in YAML says; ``path`` is how errors call it.

    Raises:
        InputError: It is not YAML.
        UsageError: A key is unknown, or a value cannot be.
    """
    import yaml

    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark is not None else path
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or error
        raise InputError(f"{place}: not YAML: {problem}", _FORM) from None
    except (RecursionError, ValueError) as error:
        raise InputError(f"{path}: not YAML: {error}", _FORM) from None
    if not isinstance(root, yaml.MappingNode):
        raise InputError(f"{path}: no settings of a plan", f"it has the sections {', '.join(sections())}")
    found: dict[str, Said] = {}
    for section, line, value in _pairs(root, path):
        if section not in sections():
            raise _unknown(section, sections(), f"{path}:{line}", "section")
        if _empty(value):
            continue
        if not isinstance(value, yaml.MappingNode):
            raise UsageError(f"{path}:{line}: {section} holds no keys", f"known: {', '.join(names_in(section))}")
        for name, at, inner in _pairs(value, path):
            if f"{section}.{name}" in KEYS and _empty(inner):
                continue
            found[f"{section}.{name}"] = _said(section, name, f"{path}:{at}", inner)
    return Settings(found)


def _said(section: str, name: str, where: str, node: yaml.Node) -> Said:
    full = f"{section}.{name}"
    key = KEYS.get(full)
    if key is None:
        elsewhere = [other.section for other in KEYS.values() if other.name == name]
        if elsewhere:
            raise UsageError(f"{where}: {section} has no key {name!r}", f"it belongs to {elsewhere[0]}")
        raise _unknown(name, names_in(section), where, f"key of {section}")
    if key.kind == "table":
        return _table(full, where, node)
    value = scalar(node)
    if value is _COLLECTION:
        raise UsageError(f"{where}: {full} holds one value, not several", f"for example {name}: {_example(key)}")
    return said(full, value, where)


def _example(key: Key) -> str:
    """Return a value that a key may have."""
    if key.choices:
        return key.choices[0]
    return {"whole": "8", "number": "7.0", "flag": "true"}.get(key.kind, "NAME")


def _table(full: str, where: str, node: yaml.Node) -> Said:
    """Return a table as a dict from key to (value, place); whose keys these are is known to whom reads it."""
    import yaml

    if not isinstance(node, yaml.MappingNode):
        raise UsageError(f"{where}: {full} holds no keys", "for example {layers: 32, hidden: 4096}")
    path = where.rpartition(":")[0]
    return Said({name: Said(content(inner), f"{path}:{line}") for name, line, inner in _pairs(node, path)}, where)


def _pairs(node: yaml.MappingNode, path: str) -> list[tuple[str, int, yaml.Node]]:
    """Return (key, line, value) of a mapping.

    Raises:
        UsageError: A key is there twice, or is not a word.
    """
    import yaml

    found: dict[str, tuple[str, int, yaml.Node]] = {}
    for key, value in node.value:
        line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            raise UsageError(f"{path}:{line}: a key is a word")
        name = str(key.value)
        if name in found:
            raise UsageError(f"{path}:{line}: {name} is there twice", f"the first is in line {found[name][1]}")
        found[name] = (name, line, value)
    return list(found.values())


_COLLECTION = object()


def _empty(node: yaml.Node) -> bool:
    return scalar(node) is None


def scalar(node: yaml.Node) -> Any:
    """Return the value of a scalar: text where it is quoted, else a number, truth, nothing or text.

    Numbers are what a person takes for one: ``1e12`` and ``1_000``, which YAML 1.1 reads as text.
    """
    import yaml

    if not isinstance(node, yaml.ScalarNode):
        return _COLLECTION
    text = str(node.value)
    if node.style in ("'", '"', "|", ">"):
        return text
    if node.tag == "tag:yaml.org,2002:null":
        return None
    if node.tag == "tag:yaml.org,2002:bool":
        return text.lower() in ("true", "yes", "on")
    number = as_number(text) if text[-1:].isdigit() or text[-1:] == "." else None
    if number is None:
        return text
    return int(number) if number == int(number) and abs(number) < 1e15 and "." not in text else number


def content(node: yaml.Node) -> Any:
    """Return the value of a node, lists of values included."""
    import yaml

    if isinstance(node, yaml.SequenceNode):
        return [None if (value := scalar(item)) is _COLLECTION else value for item in node.value]
    value = scalar(node)
    return None if value is _COLLECTION else value


def _unknown(name: str, known: tuple[str, ...], where: str, what: str) -> UsageError:
    near = nearest(name.lower().replace("-", "_"), known)
    hint = f"did you mean {near}? " if near else ""
    return UsageError(f"{where}: unknown {what} {name!r}", f"{hint}known: {', '.join(known)}")
