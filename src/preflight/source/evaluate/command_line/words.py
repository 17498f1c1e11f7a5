"""A script's own command line as words: for parsers that take their options from signatures and records."""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from preflight.errors import UsageError
from preflight.source.values import Class, Func, Known, Obj, Partial, Value, plain, settle

if TYPE_CHECKING:
    from preflight.source.evaluate.machine import Machine

_PLAIN = {"true": True, "false": False, "none": None}


def words_of(m: Machine) -> tuple[dict[str, str], list[str]]:
    """The ``--name value`` pairs of the command line, dashes within names as underscores, and the other words."""
    words = list(m.arguments or ())
    named: dict[str, str] = {}
    rest: list[str] = []
    i = 0
    while i < len(words):
        word = words[i]
        i += 1
        if not _is_option(word):
            rest.append(word)
            continue
        name, equals, text = word.lstrip("-").partition("=")
        if not equals:
            text = "True"
            if i < len(words) and not _is_option(words[i]):
                text = words[i]
                i += 1
        named[name.replace("-", "_")] = text
    return named, rest


def _is_option(word: str) -> bool:
    return word.startswith("-") and len(word) > 1 and not word[1].isdigit() and word[1] != "."


def word_value(name: str, text: str, annotation: ast.AST | None = None) -> Known:
    """What a word of the command line is worth: text where the parameter is one, else the literal that it spells."""
    value: object = text
    annotation = inner_type(annotation)
    if not (isinstance(annotation, ast.Name) and annotation.id == "str"):
        if text.lower() in _PLAIN:
            value = _PLAIN[text.lower()]
        elif len(text) < 40:
            try:
                value = ast.literal_eval(text)
            except (ValueError, SyntaxError, RecursionError, MemoryError):
                value = text
    return Known(value, None, f"command line --{name.replace('_', '-')}")


def inner_type(annotation: ast.AST | None) -> ast.AST | None:
    """The type in ``Annotated[str, ...]``; any other annotation itself."""
    if not isinstance(annotation, ast.Subscript) or not isinstance(annotation.slice, ast.Tuple):
        return annotation
    said = getattr(annotation.value, "attr", getattr(annotation.value, "id", "")) == "Annotated"
    return annotation.slice.elts[0] if said and annotation.slice.elts else annotation


def unrecognised(word: str) -> UsageError:
    """The error for a word that nothing in the script takes."""
    return UsageError(
        f"the script's own command line: unrecognized arguments: {word}", "arguments after -- are given to the script"
    )


def bind_line(
    m: Machine,
    func: Func,
    defaults: Partial,
    spellings: dict[str, str],
    options: Collection[str] = (),
    negatives: Mapping[str, str] = MappingProxyType({}),
) -> Partial:
    """A function with its defaults, and over them what the command line gives.

    Args:
        m: The machine.
        func: The function that takes the options.
        defaults: The function with a value for each parameter.
        spellings: Further names of options, each with its parameter.
        options: Parameters that are given by name alone.
        negatives: Flags that switch a parameter off, each with its parameter.

    Raises:
        UsageError: The line gives what the function does not take.
    """
    spec = func.node.args
    parameters = {arg.arg: arg.annotation for arg in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)}
    named, rest = words_of(m)
    given = dict(defaults.kwargs)
    taken: set[str] = set()
    for name, text in named.items():
        parameter = negatives.get(name) or spellings.get(name, name)
        if name in negatives and text == "True":
            given[parameter] = Known(False, None, f"command line --{name.replace('_', '-')}")
        elif parameter in parameters:
            given[parameter] = word_value(name, text, parameters[parameter])
        elif name.startswith("no") and (parameter := name[2:].lstrip("_")) in parameters and text == "True":
            given[parameter] = Known(False, None, f"command line --{name.replace('_', '-')}")
        elif spec.kwarg is not None:
            given[name] = word_value(name, text)
        else:
            raise unrecognised("--" + name.replace("_", "-"))
        taken.add(parameter)
    free = [name for name in parameters if name not in taken and name not in options]
    for word, name in zip(rest, free):  # noqa: B905 -- words beyond the parameters are told below
        given[name] = word_value(name, word, parameters[name])
    if len(rest) > len(free) and spec.vararg is None:
        raise unrecognised(rest[len(free)])
    return Partial(func, defaults.args, given, defaults.site)


def record_of(m: Machine, kind: Class, node: ast.AST, line: dict[str, str]) -> tuple[Value, set[str]]:
    """An instance of a record with what the command line gives; and the names of the line that it took.

    A dotted name (``--model.width 64``) is a field of a field; where no field has a name, a field of an inner record may.
    """
    from preflight.source.evaluate.classes import fields, instantiate

    own = {name: statement.annotation for name, statement, _ in fields(kind)}
    taken: set[str] = set()
    given: dict[str, Value] = {}
    for name, text in line.items():
        field = name if name in own else name.removeprefix("no_")
        if field in own:
            taken.add(name)
            given[field] = (
                word_value(name, text, own[field]) if field == name else Known(False, None, f"command line --{name}")
            )
    made = instantiate(m, kind, [], given, node)
    for name, text in line.items():
        if name not in taken and _set_inner(made, name, text):
            taken.add(name)
    return made, taken


def _set_inner(made: Value, name: str, text: str) -> bool:
    holder: Value | None = settle(made)
    *path, last = name.split(".")
    for part in path:
        holder = settle(holder.attrs[part]) if isinstance(holder, Obj) and part in holder.attrs else None
    if not isinstance(holder, Obj):
        return False
    if path:
        inner = [holder] if last in holder.attrs else []
    else:
        held = [v for v in map(settle, holder.attrs.values()) if isinstance(v, Obj) and v.kind == "instance"]
        inner = [value for value in held if last in value.attrs][:1]
    for target in inner:
        before = plain(target.attrs[last])
        value = word_value(name, text)
        target.attrs[last] = Known(text, None, value.how) if isinstance(before, str) else value
    return bool(inner)
