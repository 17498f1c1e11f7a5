"""Writes the reference pages that come from the program itself; ``make docs`` runs it and a test compares.

``python docs/generate.py`` writes, ``python docs/generate.py --check`` only says which pages are out of date.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec

REFERENCE = Path(__file__).resolve().parent / "reference"
WIDTH = 100
FOLDERS = ("rules", "relations", "signatures")
"""Folders of the reference that hold a page for each thing."""


def commands(
    command: click.Command, name: str, above: click.Context | None = None
) -> Iterator[tuple[str, click.Context]]:
    """Yield every command that is not hidden, as it is typed, with its context; lazily loaded ones too."""
    settings = {**command.context_settings, "terminal_width": WIDTH, "max_content_width": WIDTH}
    context = click.Context(command, info_name=name.split()[-1], parent=above, **settings)
    yield name, context
    if isinstance(command, click.Group):
        for word in command.list_commands(context):
            inner = command.get_command(context, word)
            if inner is None:
                raise LookupError(f"`{name} {word}` is listed and is not there")
            if not inner.hidden:
                yield from commands(inner, f"{name} {word}", context)


def root() -> click.Group:
    """Return the click group behind the command ``preflight``."""
    main = importlib.import_module("preflight.cli.main")
    groups = {id(value): value for value in vars(main).values() if isinstance(value, click.Group)}
    if len(groups) != 1:
        raise LookupError(f"preflight.cli.main holds {len(groups)} click groups; one is expected")
    return next(iter(groups.values()))


def command_page() -> str:
    """Return the page of all commands: what ``--help`` says of each."""
    parts = ["# Commands\n\nWritten by `make docs` from what `--help` says.\n"]
    for name, context in commands(root(), "preflight"):
        text = "\n".join(line.rstrip() for line in context.get_help().splitlines())
        parts.append(f"## `{name}`\n\n```text\n{text}\n```\n")
    return "\n".join(parts)


def listed(kind: str) -> list[dict[str, Any]]:
    """Return the rows that ``preflight list KIND`` shows."""
    rows: list[dict[str, Any]] = importlib.import_module(f"preflight.cli.listings.{kind}").rows()
    return rows


def table(head: tuple[str, ...], rows: list[tuple[object, ...]]) -> str:
    """Return a table in Markdown; None is an empty cell."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in rows:
        cells = ("" if cell is None else f"{cell:g}" if isinstance(cell, float) else str(cell) for cell in row)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def rule_pages() -> dict[str, str]:
    """Return the index of the rules, and a page for each."""
    page = importlib.import_module("preflight.cli.parts.pages").page
    rules = listed("rules")
    families = sorted({rule["family"] for rule in rules})
    index = [
        "# Rules\n\nWritten by `make docs` from the files of the rules.\n"
        "`preflight explain ID` prints the same page; either the code or the name is an ID.\n"
        f"There are {len(rules)}.\n"
    ]
    for family in families:
        rows = [
            (f"[{rule['code']}]({rule['name']}.md)", f"`{rule['name']}`", rule["severity"], rule["title"])
            for rule in rules
            if rule["family"] == family
        ]
        index.append(f"## {family}\n\n" + table(("code", "name", "severity", "what it finds"), rows))
    pages = {f"rules/{rule['name']}.md": rule_page(page(rule["code"])) for rule in rules}
    return {"rules/README.md": "\n".join(index), **pages}


def rule_page(rule: dict[str, Any]) -> str:
    """Return the page of one rule, with its first bad and its first good example."""
    about = [
        ("severity", rule["severity"]),
        ("confidence", rule["confidence"]),
        ("family", rule["family"]),
        ("shown with", None if rule["persona"] == "regular" else f"`--persona {rule['persona']}`"),
        ("needs", ", ".join(rule["needs"]).replace("_", " ") or None),
    ]
    parts = [
        f"# {rule['code']} `{rule['name']}`\n\n{rule['title']}.\n",
        table(("", ""), [row for row in about if row[1] is not None]),
        re.sub(r"(?m)^(## .*)\n(?!\n)", r"\1\n\n", rule["page"]) + "\n",
    ]
    for kind, title in (("bad", "Found in, for example"), ("good", "Not found in, for example")):
        parts += [f"## {title}\n\n```python\n{example['code']}```\n" for example in rule[kind][:1]]
    return "\n".join(parts)


def relation_pages() -> dict[str, str]:
    """Return the index of the relations, and a page for each."""
    pages = importlib.import_module("preflight.cli.parts.relation_pages")
    relations = listed("relations")
    rows: list[tuple[object, ...]] = [
        (f"[`{one['name']}`]({one['name']}.md)", one["severity"], one["compares"], one["learns"], one["title"])
        for one in relations
    ]
    index = (
        "# Relations\n\nWritten by `make docs` from the files of the relations.\n"
        "A relation says what can be held against a recorded training run; `preflight explain NAME` prints its page.\n"
        f"There are {len(relations)}.\n\n"
        + table(("name", "a violation is", "it compares", "it is", "what it says"), rows)
    )
    found = {
        f"relations/{one['name']}.md": pages.relation_markdown(pages.relation_page(one["name"])) for one in relations
    }
    return {"relations/README.md": index, **found}


def signature_pages() -> dict[str, str]:
    """Return the index of the failure signatures, and a page for each."""
    pages = importlib.import_module("preflight.cli.parts.signature_pages")
    signatures = listed("signatures")
    index = [
        "# Failure signatures\n\nWritten by `make docs` from the files of the catalog.\n"
        "A signature says what a line of a log stands for, and whether it names a cause.\n"
        "`preflight explain ID` prints its page; a user's catalog folder adds more.\n"
        f"There are {len(signatures)}.\n"
    ]
    for family in sorted({one["family"] for one in signatures}):
        rows: list[tuple[object, ...]] = [
            (f"[`{one['name']}`]({one['name'].replace('.', '/')}.md)", one["category"], one["role"], one["title"])
            for one in signatures
            if one["family"] == family
        ]
        index.append(f"## {family}\n\n" + table(("name", "category", "role", "what it says"), rows))
    found = {
        f"signatures/{one['name'].replace('.', '/')}.md": pages.signature_markdown(one["name"]) for one in signatures
    }
    return {"signatures/README.md": "\n".join(index), **found}


def gpu_page() -> str:
    """Return the table of the GPUs."""
    rows: list[tuple[object, ...]] = [
        (
            f"`{gpu['name']}`",
            gpu["title"],
            gpu["memory_gib"],
            gpu["bandwidth_gb_per_s"],
            *(gpu[f"{dtype}_tflops"] for dtype in ("bf16", "fp16", "fp8")),
        )
        for gpu in listed("gpus")
    ]
    return (
        "# GPUs\n\nWritten by `make docs` from the catalog.\n"
        "Memory is what a driver reports, in GiB; peaks are dense, in TFLOP/s.\n"
        "Where a number was read stands in the file of the GPU, `src/preflight/catalog/gpus/NAME.toml`.\n"
        "How to add one: [the catalog](../guides/catalog.md).\n\n"
        + table(("name", "GPU", "memory", "bandwidth (GB/s)", "bf16", "fp16", "fp8"), rows)
    )


def model_page() -> str:
    """Return the table of the models."""
    rows: list[tuple[object, ...]] = [
        (f"`{model['name']}`", model["family"], f"{model['parameters']:,}", model["library"], model["class_name"])
        for model in listed("models")
    ]
    return (
        "# Models\n\nWritten by `make docs` from the catalog.\n"
        "Parameters are counted exactly, tied ones once; the tests compare each with the class that is named.\n"
        "Where the widths were read stands in the file of the model, `src/preflight/catalog/models/NAME.toml`.\n\n"
        + table(("name", "family", "parameters", "library", "class"), rows)
    )


def report_page() -> str:
    """Return the reference of the JSON report: every value, from the declarations of the vocabulary."""
    report = importlib.import_module("preflight.vocabulary.report")
    structs: list[type[msgspec.Struct]] = []
    _collect(report.Report, structs)
    parts = [
        "# The report as JSON\n\nWritten by `make docs` from the vocabulary.\n"
        f"`preflight check --format json` writes one `Report`; its `schema` is `{report.SCHEMA}`.\n"
        "A field is added without notice; one is removed or renamed only with a new schema.\n"
        "Bytes are numbers of bytes; a value that is not known is `null`, with its reason beside it.\n"
    ]
    for struct in structs:
        said = (struct.__doc__ or "").strip().partition("\n\n")[0]
        explained = dict(re.findall(r"(?m)^ {4}(\w+): (.+)$", inspect.cleandoc(struct.__doc__ or "")))
        hints = typing.get_type_hints(struct)
        rows: list[tuple[object, ...]] = [
            (f"`{field.encode_name}`", f"`{_type(hints[field.name])}`", explained.get(field.name))
            for field in msgspec.structs.fields(struct)
        ]
        parts.append(f"## {struct.__name__}\n\n{' '.join(said.split())}\n\n" + table(("field", "type", ""), rows))
    return "\n".join(parts)


def _collect(kind: Any, found: list[type[msgspec.Struct]]) -> None:
    """Add the structs that a type is made of, in the order in which they are met."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and kind not in found:
        found.append(kind)
        for hint in typing.get_type_hints(kind).values():
            _collect(hint, found)
    for inner in typing.get_args(kind):
        _collect(inner, found)


def _type(hint: Any) -> str:
    """Return a type as it is written in JSON's words."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return " or ".join(f'"{value}"' for value in inner)
    if origin in (tuple, list):
        return f"list of {_type(inner[0])}"
    if origin is dict:
        return f"object of {_type(inner[1])}"
    if inner:
        return " or ".join(dict.fromkeys(map(_type, inner)))
    words = {str: "text", int: "integer", float: "number", bool: "boolean", type(None): "null", Any: "any"}
    return words.get(hint) or str(getattr(hint, "__name__", hint))


def pages() -> dict[str, str]:
    """Return every generated page by its path in ``docs/reference``."""
    return {
        "commands.md": command_page(),
        "gpus.md": gpu_page(),
        "models.md": model_page(),
        "report.md": report_page(),
        **rule_pages(),
        **relation_pages(),
        **signature_pages(),
    }


def stale() -> list[str]:
    """Return the pages that are missing, differ from what would be written now, or are of rules that are gone."""
    wanted = pages()
    differing = [
        name
        for name, text in wanted.items()
        if not (path := REFERENCE / name).is_file() or path.read_text("utf-8") != text
    ]
    return differing + left_over(wanted)


def left_over(wanted: dict[str, str]) -> list[str]:
    """Return the pages of rules, relations and signatures that are no more."""
    there = (path.relative_to(REFERENCE).as_posix() for name in FOLDERS for path in (REFERENCE / name).rglob("*.md"))
    return sorted(name for name in there if name not in wanted)


def main() -> int:
    """Write the pages, or check them."""
    if "--check" in sys.argv[1:]:
        out_of_date = stale()
        for name in out_of_date:
            print(f"docs/reference/{name} is out of date; run `make docs`", file=sys.stderr)
        return 1 if out_of_date else 0
    wanted = pages()
    for name in left_over(wanted):
        (REFERENCE / name).unlink()
    for name, text in wanted.items():
        (REFERENCE / name).parent.mkdir(parents=True, exist_ok=True)
        (REFERENCE / name).write_text(text, encoding="utf-8", newline="\n")
    print(f"{len(wanted)} pages in docs/reference")
    return 0


if __name__ == "__main__":
    sys.exit(main())
