"""The page of a rule, put together from its file: declaration, text and examples."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from importlib import import_module
from typing import Any

from preflight.check.notices import all_rules
from preflight.check.rule import Example, RuleFile
from preflight.cli.parts.writing import Writing
from preflight.errors import UsageError

FORMATS = ("text", "markdown", "json", "html")
LAYERS = {"S": "syntax", "D": "data flow", "C": "configuration", "V": "sizes and runs"}


def page(identifier: str) -> dict[str, Any]:
    """Everything that is known of a rule, as plain values.

    Raises:
        UsageError: No rule has this name or code; the hint names the nearest.
    """
    loaded = find_rule(identifier)
    if loaded is None:
        raise unknown(identifier)
    rule = loaded.rule
    module = import_module(loaded.module)
    title, _, body = loaded.page.strip().partition("\n")
    return {
        "schema": "preflight.rule/1", "code": rule.code, "name": rule.name, "title": title.rstrip("."),
        "family": loaded.family,
        "severity": rule.severity, "confidence": rule.confidence, "layer": rule.layer, "persona": rule.persona,
        "tags": list(rule.tags), "needs": list(rule.needs), "dry_run": _dry_run(rule.code), "page": body.strip(),
        "bad": [_example(e) for e in getattr(module, "BAD", ())],
        "good": [_example(e) for e in getattr(module, "GOOD", ())],
    }  # fmt: skip


def _dry_run(code: str) -> str | None:
    """How a dry run serves the rule: ``needed``, ``confirms``, ``confirms or disproves``; None where it does not."""
    from preflight.check.registry import load_rules, load_run_rules

    observed = next((loaded for loaded in load_run_rules() if loaded.rule.code == code), None)
    if observed is None:
        return None
    if all(loaded.rule.code != code for loaded in load_rules()):
        return "needed"
    return "confirms or disproves" if observed.settles else "confirms"


def find_rule(identifier: str) -> RuleFile | None:
    """Return the rule of this name or code; None where there is none."""
    wanted = identifier.strip().lower().replace("_", "-")
    return next((one for one in all_rules() if wanted in (one.rule.name, one.rule.code.lower())), None)


def unknown(identifier: str, others: Iterable[str] = ()) -> UsageError:
    """Return the error for a name that nothing bears; its hint names the nearest of what has a page."""
    from typing import get_args

    from preflight.check.selection import nearest_rule
    from preflight.errors import nearest
    from preflight.monitor.relation import relations
    from preflight.vocabulary.signature import Category

    if identifier.lower() in get_args(Category):
        return UsageError(
            f"{identifier} is a category", f"preflight list signatures {identifier.lower()} shows its signatures"
        )
    if "." in identifier or "/" in identifier:
        return UsageError(f"no signature is called {identifier!r}", _hint(_nearest_signature(identifier), "signatures"))
    close = [name for name in (nearest_rule(identifier), _nearest_signature(identifier)) if name is not None]
    every = [*close, *relations(), *others]
    begun = (name for name in every if name.lower().startswith(identifier.lower()))
    near = next(begun, None) or nearest(identifier, every) or next(iter(close), None)
    return UsageError(f"nothing is called {identifier!r}", _hint(near, "relations" if near in relations() else "rules"))


def _hint(near: str | None, kind: str) -> str:
    return f"{f'did you mean {near}? ' if near else ''}preflight list {kind} shows all"


def _nearest_signature(identifier: str) -> str | None:
    from preflight.cli.parts.signature_pages import nearest_signature

    return nearest_signature(identifier)


def _example(given: str | Example) -> dict[str, Any]:
    example = given if isinstance(given, Example) else Example(given)
    shown: dict[str, Any] = {"code": example.code.strip("\n") + "\n"}
    for name in ("arguments", "files", "gpu", "gpus", "launch"):
        value = getattr(example, name)
        if value:
            shown[name] = list(value) if isinstance(value, tuple) else value
    return shown


def render_page(rule: dict[str, Any], look: Writing) -> str:
    """The page in the format that was asked for."""
    if look.format == "json":
        from preflight.report.parts.plain import encode

        return encode(rule)
    if look.format == "markdown":
        return _markdown(rule)
    if look.format == "html":
        from preflight.report.parts.sheet import sheet

        return sheet(_markdown(rule))
    return _text(rule, look.width)


def _declared(rule: dict[str, Any]) -> str:
    words = [
        f"{rule['severity']}, {rule['confidence']}",
        f"layer {rule['layer']} ({LAYERS[rule['layer']]})",
        f"family {rule['family']}",
    ]
    if rule["persona"] != "regular":
        words.append(f"shown with --persona {rule['persona']}")
    if rule["dry_run"]:
        words.append("needs --dry-run" if rule["dry_run"] == "needed" else f"--dry-run {rule['dry_run']} it")
    if rule["needs"]:
        words.append(f"needs {', '.join(need.replace('_', ' ') for need in rule['needs'])}")
    return "; ".join(words)


def _text(rule: dict[str, Any], width: int) -> str:
    lines = [
        f"{rule['code']}  {rule['name']}",
        *textwrap.wrap(rule["title"], width),
        *textwrap.wrap(_declared(rule), width),
        "",
    ]
    for line in rule["page"].splitlines():
        if line.startswith("#"):
            lines.append(line.lstrip("# ").upper())
        elif line.startswith("```") or len(line) <= width - 2:
            lines.append(f"  {line}".rstrip())
        else:
            hang = "  - " if line.startswith("- ") else "  "
            lines += textwrap.wrap(
                line.removeprefix("- "), width, initial_indent=hang, subsequent_indent=" " * len(hang)
            )
    for kind, title in (("bad", "FOUND IN, FOR EXAMPLE"), ("good", "NOT FOUND IN, FOR EXAMPLE")):
        if rule[kind]:
            lines += ["", title, *(f"  {line}".rstrip() for line in rule[kind][0]["code"].rstrip().splitlines())]
    return "\n".join(lines) + "\n"


def _markdown(rule: dict[str, Any]) -> str:
    parts = [f"# {rule['code']} `{rule['name']}`\n\n{rule['title']}\n\n{_declared(rule)}\n", rule["page"] + "\n"]
    for kind, title in (("bad", "Found in"), ("good", "Not found in")):
        parts += [f"## {title}\n\n```{_language(example['code'])}\n{example['code']}```\n" for example in rule[kind]]
    return "\n".join(parts)


def _language(code: str) -> str:
    """The language of an example: notices on job scripts show those."""
    return "sh" if code.startswith("#!") and "sh" in code.partition("\n")[0] else "python"
