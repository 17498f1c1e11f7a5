"""Configurations as flat names and values: read, compared, and written with some of the differences."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from preflight.errors import InputError, UsageError

STRUCTURED = (".yaml", ".yml", ".json", ".toml")
VARIABLES = (".env",)
FLAGS = (".txt", ".args", ".flags")


class _Absent:
    def __repr__(self) -> str:
        return "(absent)"


ABSENT = _Absent()
Path = tuple[str | int, ...]


class Difference(msgspec.Struct, frozen=True):
    """A name with what it is in what works and in what fails, as JSON; None: it is not there."""

    name: str
    works: str | None
    fails: str | None

    def __str__(self) -> str:
        """The difference as a person reads it."""
        return f"{self.name}: {'(absent)' if self.works is None else self.works} -> {'(absent)' if self.fails is None else self.fails}"


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration: its content by flat name, and what kind of file it is."""

    path: str
    kind: str
    content: dict[str, Any]


def read_configuration(path: str) -> Configuration:
    """Read YAML, JSON, TOML, a file of variables (.env) or of flags (.txt, .args, .flags).

    Raises:
        InputError: It cannot be read or parsed.
        UsageError: It is of none of these kinds.
    """
    ending = os.path.splitext(path)[1].lower()
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None
    if ending in STRUCTURED:
        return Configuration(path=path, kind=ending, content=dict(_flat(_parsed(path, ending, text))))
    if ending in VARIABLES or os.path.basename(path) == ".env":
        return Configuration(path=path, kind=".env", content=_variables(path, text))
    if ending in FLAGS:
        return Configuration(path=path, kind=".args", content=_flags(text))
    raise UsageError(f"{path}: it is not known what kind of configuration this is", "YAML, JSON, TOML, .env, .args")


def _parsed(path: str, ending: str, text: str) -> Any:
    try:
        if ending == ".json":
            return json.loads(text)
        if ending == ".toml":
            import sys

            if sys.version_info >= (3, 11):
                import tomllib
            else:
                import tomli as tomllib

            return tomllib.loads(text)
        import yaml

        return yaml.safe_load(text)
    except Exception as error:
        said = str(error).replace("\n", " ")
        raise InputError(f"{path}: cannot be parsed: {said}") from None


def _flat(value: Any, prefix: Path = ()) -> Iterator[tuple[str, Any]]:
    """Yield dotted names and values; lists of plain values are one value, others are numbered."""
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from _flat(inner, (*prefix, str(key)))
    elif isinstance(value, list) and any(isinstance(item, (Mapping, list)) for item in value):
        for number, inner in enumerate(value):
            yield from _flat(inner, (*prefix, number))
    else:
        yield json.dumps(prefix), value


def _nested(content: Mapping[str, Any]) -> Any:
    """The reverse of flat names."""
    if set(content) == {"[]"}:
        return content["[]"]
    root: dict[Any, Any] = {}
    for name, value in content.items():
        at = root
        *above, last = json.loads(name)
        for part in above:
            inner = at.setdefault(part, {})
            if not isinstance(inner, dict):  # an empty mapping in one, filled in the other
                inner = at[part] = {}
            at = inner
        at[last] = value
    return _listed(root)


def _listed(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    inner = {key: _listed(item) for key, item in value.items()}
    if inner and all(isinstance(key, int) for key in inner):
        return [inner[key] for key in sorted(inner)]
    return inner


def _variables(path: str, text: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip().removeprefix("export ")
        if not line or line.startswith("#"):
            continue
        name, equals, value = line.partition("=")
        if not equals or not name.strip().isidentifier():
            raise InputError(f"{path}:{number}: is not NAME=VALUE")
        words = shlex.split(value, comments=True)
        found[name.strip()] = " ".join(words)
    return found


def _flags(text: str) -> dict[str, Any]:
    """Flags with their values; a flag without one is True; words before the first flag are positions."""
    found: dict[str, Any] = {}
    name, position = None, 0
    for word in shlex.split(text, comments=True):
        if word.startswith("-") and not _is_number(word):
            name, equals, value = word.partition("=")
            found[name] = value if equals else True
            name = None if equals else name
        elif name is None:
            found[f"#{position}"] = word
            position += 1
        else:
            found[name] = word if found[name] is True else f"{found[name]} {shlex.quote(word)}"
    return found


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def differences(works: Configuration, fails: Configuration) -> tuple[Difference, ...]:
    """Return where two configurations differ.

    Raises:
        UsageError: They are not of the same kind.
    """
    structured = works.kind in STRUCTURED and fails.kind in STRUCTURED
    if works.kind != fails.kind and not structured:
        raise UsageError(f"{works.path} and {fails.path} are not of the same kind")
    names = [*works.content, *(name for name in fails.content if name not in works.content)]
    found = []
    for name in names:
        one, other = works.content.get(name, ABSENT), fails.content.get(name, ABSENT)
        if one is ABSENT or other is ABSENT or type(one) is not type(other) or one != other:
            found.append(Difference(name=name, works=_json(one), fails=_json(other)))
    return tuple(found)


def _json(value: Any) -> str | None:
    return None if value is ABSENT else json.dumps(value, default=str)


def shown(difference: Difference) -> str:
    """Return a difference as a person reads it."""
    name = difference.name
    if name.startswith("["):
        name = ".".join(str(part) for part in json.loads(name)) or "(everything)"
    return str(Difference(name=name, works=difference.works, fails=difference.fails))


def with_differences(works: Configuration, fails: Configuration, chosen: Iterable[Difference]) -> dict[str, Any]:
    """Return the content of what works with some of the differences of what fails."""
    content = dict(works.content)
    for one in chosen:
        if one.name in fails.content:
            content[one.name] = fails.content[one.name]
        else:
            content.pop(one.name, None)
    return content


def written(content: Mapping[str, Any], kind: str) -> str:
    """Return a configuration as the text of a file; TOML is written as JSON is not, so it becomes YAML only when asked."""
    if kind == ".json":
        return json.dumps(_nested(content), indent=2, default=str) + "\n"
    if kind in (".yaml", ".yml"):
        import yaml

        return str(yaml.safe_dump(_nested(content), sort_keys=False))
    if kind == ".env":
        return "".join(f"{name}={shlex.quote(str(value))}\n" for name, value in content.items())
    if kind == ".args":
        return " ".join(flags_of(content)) + "\n"
    raise UsageError("TOML cannot be written", "give the two configurations as YAML or JSON")


def flags_of(content: Mapping[str, Any]) -> list[str]:
    """Return flags as the words of a command line."""
    words: list[str] = []
    for name, value in content.items():
        if name.startswith("#"):
            words.append(str(value))
        elif value is True:
            words.append(name)
        else:
            words += [name, *shlex.split(str(value))] if " " in str(value) or "'" in str(value) else [name, str(value)]
    return words


def with_key(path: str, dotted: str, value: Any) -> tuple[str, str]:
    """Return the text of a configuration with one key set, and its ending.

    Raises:
        UsageError: There is no such key.
    """
    configuration = read_configuration(path)
    name = (
        json.dumps([int(p) if p.isdigit() else p for p in dotted.split(".")])
        if configuration.kind in STRUCTURED
        else dotted
    )
    if name not in configuration.content:
        from preflight.errors import nearest

        known = [".".join(map(str, json.loads(k))) if k.startswith("[") else k for k in configuration.content]
        near = nearest(dotted, known)
        raise UsageError(f"{path}: has no key {dotted!r}", f"did you mean {near}?" if near else None)
    content = {**configuration.content, name: value}
    kind = ".yaml" if configuration.kind == ".toml" else configuration.kind
    if configuration.kind == ".toml":
        raise UsageError("a key of a TOML file cannot be written", "give the configuration as YAML or JSON")
    return written(content, kind), kind


__all__ = [
    "Configuration", "Difference", "differences", "flags_of", "read_configuration", "shown", "with_differences", "with_key",
    "written",
]  # fmt: skip
