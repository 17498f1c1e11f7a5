"""The failure signatures: one TOML file each, ``signatures/FAMILY/NAME.toml``, whose path is its id (``FAMILY.NAME``).

A user folder has the same layout; its files add signatures, or take the place of the shipped one of the same id.
What the shipped files must hold is tested; a user's file is looked at here, and what is wrong with it is said at once.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Iterator, Sequence
from functools import cache
from typing import Any, get_args

import msgspec

from preflight.catalog import files
from preflight.errors import CatalogError, nearest
from preflight.vocabulary.signature import Category, Cause, FieldKind, Role, RootWhen, Signature

KIND = "signatures"
NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
TAKEN_IN_FULL = 1.0 + 1e-9
"""What the priors of the causes of one signature may add up to, but for rounding."""


def load_signatures(extra: Sequence[str | os.PathLike[str]] = ()) -> tuple[Signature, ...]:
    """Return the signatures, by id: the shipped ones, and those of the user's catalog folders.

    Args:
        extra: The user's catalog folders; each may hold ``signatures/FAMILY/NAME.toml``.

    Raises:
        CatalogError: A folder is not there, a file is wrong, or two user folders hold the same id.
    """
    return _load(tuple(os.fspath(folder) for folder in extra))


def signature_names(extra: Sequence[str | os.PathLike[str]] = ()) -> tuple[str, ...]:
    """Return the ids, sorted, without opening a file."""
    found: set[str] = set()
    for folder in files.folders(KIND, [os.fspath(folder) for folder in extra]):
        found.update(name for name, _ in listed(folder))
    return tuple(sorted(found))


def load_signature(name: str, extra: Sequence[str | os.PathLike[str]] = ()) -> Signature | None:
    """Return one signature, or None where there is none of that id; only its own file is opened."""
    folders = files.folders(KIND, [os.fspath(folder) for folder in extra])
    for folder in folders:
        for found, path in listed(folder):
            if found == name:
                return read_signature(path, name, strict=folder is not folders[-1])
    return None


@cache
def _load(extra: tuple[str, ...]) -> tuple[Signature, ...]:
    *own, shipped = files.folders(KIND, extra)
    paths: dict[str, str] = {}
    for folder in own:
        for name, path in listed(folder):
            if name in paths:
                raise CatalogError(
                    f"{path}: the signature '{name}' is in {paths[name]} already", hint="rename one of them"
                )
            paths[name] = path
    found = {name: read_signature(path, name, strict=True) for name, path in paths.items()}
    for name, path in listed(shipped):
        if name not in found:
            found[name] = read_signature(path, name, strict=False)
    for name, path in paths.items():
        for other in found[name].supersedes:
            if other not in found:
                raise _wrong(path, "supersedes", f"there is no signature '{other}'", nearest(other, sorted(found)))
    return tuple(found[name] for name in sorted(found))


def listed(folder: str) -> Iterator[tuple[str, str]]:
    """Yield (id, path) of every signature file in a folder ``signatures``, by path; a folder that is not there has none.

    Raises:
        CatalogError: A file is not in a folder of a family, or a name is not in lower case with dashes.
    """
    for stray in files.listing(folder):
        path = os.path.join(folder, stray + files.SUFFIX)
        raise CatalogError(
            f"{path}: a signature stands in the folder of its family", hint="signatures/FAMILY/NAME.toml"
        )
    for family in _folders(folder):
        for name in files.listing(os.path.join(folder, family)):
            path = os.path.join(folder, family, name + files.SUFFIX)
            for part in (family, name):
                if not NAME.fullmatch(part):
                    raise CatalogError(
                        f"{path}: '{part}' is no name of a signature", hint="lower case, digits and dashes"
                    )
            yield f"{family}.{name}", path


@cache
def _folders(folder: str) -> tuple[str, ...]:
    try:
        with os.scandir(folder) as entries:
            return tuple(sorted(entry.name for entry in entries if entry.is_dir() and entry.name[0] not in "._"))
    except (FileNotFoundError, NotADirectoryError):
        return ()


def read_signature(path: str, name: str, *, strict: bool) -> Signature:
    """Return the signature in a file.

    Args:
        path: The file.
        name: Its id.
        strict: Look at everything that can be wrong with a signature, examples too: for files of a user.

    Raises:
        CatalogError: It is not TOML, names no source, or a field is wrong; file and field are named.
    """
    content = files.parse(path)
    if content.setdefault("id", name) != name:
        raise _wrong(
            path, "id", f"it is '{content['id']}', and its place says '{name}'", None, "leave it out, or move the file"
        )
    _known_keys(path, content, Signature, "")
    for number, cause in enumerate(content.get("causes", ())):
        if isinstance(cause, dict):
            _known_keys(path, cause, Cause, f"causes[{number}].")
    _known_words(path, content)
    try:
        signature = msgspec.convert(content, type=Signature, strict=True)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$")
        raise _wrong(path, where.strip("`.") or "the file", what) from error
    if strict:
        for field, problem in problems(signature):
            raise _wrong(path, field, problem)
    return signature


def _wrong(path: str, field: str, problem: str, close: str | None = None, hint: str | None = None) -> CatalogError:
    return CatalogError(f"{path}: {field}: {problem}", hint=f"did you mean '{close}'?" if close else hint)


def _known_keys(path: str, content: dict[str, Any], kind: type[msgspec.Struct], where: str) -> None:
    known = kind.__struct_encode_fields__
    for key in content:
        if key not in known:
            raise _wrong(
                path, f"{where}{key}", "there is no such field", nearest(key, known), f"one of {', '.join(known)}"
            )


def _known_words(path: str, content: dict[str, Any]) -> None:
    """Refuse a word that is not one of those a field can hold, and name the nearest."""
    held: list[tuple[str, object, object]] = [("category", content.get("category"), Category)]
    held += [("role", content.get("role"), Role), ("root_when", content.get("root_when"), RootWhen)]
    for number, cause in enumerate(content.get("causes", ())):
        if isinstance(cause, dict):
            held.append((f"causes[{number}].category", cause.get("category"), Category))
    fields = content.get("fields", {})
    held += [(f"fields.{key}", value, FieldKind) for key, value in fields.items()] if isinstance(fields, dict) else []
    for field, word, kind in held:
        choices = get_args(kind)
        if isinstance(word, str) and word not in choices:
            raise _wrong(path, field, f"'{word}' is none of {', '.join(choices)}", nearest(word, choices))


def problems(signature: Signature) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with a signature in itself, as (field, what): expressions, groups, priors, examples."""
    compiled: dict[str, Any] = {}
    for field in ("regex", "detail"):
        pattern = getattr(signature, field)
        if pattern is not None:
            wrong = yield from _pattern(field, pattern)
            if wrong:
                return
            compiled[field] = re.compile(pattern)
    if not signature.literals or not all(signature.literals):
        yield "literals", "a signature needs one at least, and none is empty"
    groups = {group for expression in compiled.values() for group in expression.groupindex}
    yield from _fields(signature, groups)
    if sum(cause.prior for cause in signature.causes) > TAKEN_IN_FULL:
        yield "causes", "the priors add up to more than 1"
    yield from (
        ("causes", f"the prior of '{c.id}' is not above 0 and at most 1")
        for c in signature.causes
        if not 0 < c.prior <= 1
    )
    for name in ("match", "no_match"):
        if not getattr(signature, name):
            yield name, "there is no example"
    yield from (("match", f"it does not take {text!r}") for text in signature.match if not takes(signature, text))
    yield from (("no_match", f"it takes {text!r}") for text in signature.no_match if takes(signature, text))
    if signature.detail and not any(
        compiled["detail"].search(line) for text in signature.match for line in text.splitlines()
    ):
        yield "detail", "it is found in no example"


def _pattern(field: str, pattern: str) -> Generator[tuple[str, str], None, bool]:
    """Yield what is wrong with an expression; return whether something is."""
    import re2

    for name, module in (("Python", re), ("RE2", re2)):
        try:
            module.compile(pattern)
        except module.error as error:
            yield field, f"{name} cannot read the expression: {error}"
            return True
    return False


def _fields(signature: Signature, groups: set[str]) -> Iterator[tuple[str, str]]:
    for name, kind in signature.fields.items():
        if name not in groups:
            yield f"fields.{name}", "no group of that name in regex or detail"
        if kind == "bytes" and f"{name}_unit" not in groups:
            yield f"fields.{name}", f"a field of bytes needs a group '{name}_unit' beside it"
    for group in sorted(groups - set(signature.fields)):
        if not (group.endswith("_unit") and signature.fields.get(group[: -len("_unit")]) == "bytes"):
            yield "fields", f"the group '{group}' is not named there"
    for field in ("shift", "points_to", "subject", "announces"):
        named = getattr(signature, field)
        if named is not None and named not in signature.fields:
            yield field, f"'{named}' is none of its fields"
    if signature.detail and not signature.after:
        yield "after", "detail needs lines that follow"


def takes(signature: Signature, text: str) -> bool:
    """Return whether a signature takes the first line of a text: a literal is in it, and the expression is found."""
    line = text.split("\n", 1)[0]
    if not any(literal in line for literal in signature.literals):
        return False
    return signature.regex is None or re.search(signature.regex, line) is not None
