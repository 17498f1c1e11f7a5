"""The index of the rules, and a page for each."""

from __future__ import annotations

import importlib
import re
from typing import Any

from written import listed, table


def pages() -> dict[str, str]:
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
