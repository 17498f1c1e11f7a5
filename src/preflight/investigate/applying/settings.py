"""Changes in a configuration: one key of YAML, JSON or TOML, everything else as it was written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from preflight.errors import InputError
from preflight.investigate.applying.values import becomes, check_word, written
from preflight.vocabulary.remedy import SettingChange


def set_key(change: SettingChange, path: str, text: str, value: str | None) -> tuple[str, str | None]:
    """Change the first of the keys that is there, or add one; return the text and what was done.

    Raises:
        InputError: The file cannot be parsed.
    """
    if value is not None:
        check_word(value)
    if path.endswith(".toml"):
        return _in_toml(change, text, value)
    notation = "json" if path.endswith(".json") else "plain"
    documents = _documents(path, text)
    places = [place for document in documents for place in _scalars(document)]
    for name in change.names:
        for dotted, node in places:
            if dotted == name or dotted.rsplit(".", 1)[-1] == name:
                start, end = node.start_mark.index, node.end_mark.index
                new = becomes(change, text[start:end], value, notation)
                if new is not None:
                    return text[:start] + new + text[end:], f"{dotted}: {new} in place of {text[start:end]}"
    present = any(d in change.names or d.rsplit(".", 1)[-1] in change.names for d, _ in places)
    if change.add is None or change.value is None or present or not documents:
        return text, None
    return _added(documents[0], change.add, value or written(change.value, notation), text, notation)


def _documents(path: str, text: str) -> list[Any]:
    import yaml

    try:
        return [node for node in yaml.compose_all(text, Loader=yaml.SafeLoader) if node is not None]
    except yaml.YAMLError as error:
        where = getattr(error, "problem_mark", None)
        line = f":{where.line + 1}" if where is not None else ""
        raise InputError(f"{path}{line}: cannot be parsed: {getattr(error, 'problem', None) or error}") from None


def _scalars(node: Any, prefix: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield the dotted names and nodes of everything that has one value; aliases are not followed twice."""
    import yaml

    if depth > 50 or not isinstance(node, yaml.MappingNode):
        return
    for key, inner in node.value:
        name = f"{prefix}{key.value}" if isinstance(key, yaml.ScalarNode) else prefix
        if isinstance(inner, yaml.ScalarNode):
            yield name, inner
        elif isinstance(inner, yaml.MappingNode):
            yield from _scalars(inner, f"{name}.", depth + 1)


def _added(root: Any, dotted: str, new: str, text: str, notation: str) -> tuple[str, str | None]:
    """Put a key in front of the first one of the mapping to which it belongs."""
    import yaml

    *above, last = dotted.split(".")
    node = root
    for part in above:
        inner = [value for key, value in getattr(node, "value", ()) if getattr(key, "value", None) == part]
        if not inner:
            return text, None
        node = inner[0]
    if not isinstance(node, yaml.MappingNode) or not node.value:
        return text, None
    first = node.value[0][0].start_mark
    line = text[text.rfind("\n", 0, first.index) + 1 : first.index]
    own_line = not line.strip()
    if node.flow_style:
        key = written(last, "json") if notation == "json" else last
        glue = f",\n{line}" if own_line else ", "
        entry = f"{key}: {new}{glue}"
    else:
        entry = f"{last}: {new}\n{' ' * first.column}"
    return text[: first.index] + entry + text[first.index :], f"{dotted}: {new} is added"


def _in_toml(change: SettingChange, text: str, value: str | None) -> tuple[str, str | None]:
    for name in change.names:
        line = re.compile(rf"(?m)^([ \t]*{re.escape(name)}[ \t]*=[ \t]*)(\"[^\"\n]*\"|'[^'\n]*'|[^\s#]+)")
        found = line.search(text)
        if found is not None:
            new = becomes(change, found.group(2), value, "json")
            if new is not None:
                after = text[: found.start(2)] + new + text[found.end(2) :]
                return after, f"{name} = {new} in place of {found.group(2)}"
    return text, None


__all__ = ["set_key"]
