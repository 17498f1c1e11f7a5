"""A checklist from incidents: what would have told it before becomes an item, so that it does not come again."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence

from preflight.catalog.checklist_files import checklist_names, load_checklist
from preflight.catalog.files import Folders
from preflight.catalog.remedy_files import load_remedies
from preflight.vocabulary.checklist import FunctionCheck, Item, PersonCheck, RulesCheck
from preflight.vocabulary.incident import Incident

_AREAS = {
    "oom": "memory", "network": "network", "numerical": "numerical", "data": "data", "checkpoint": "checkpoint",
    "environment": "environment", "hardware": "environment", "preemption": "operation",
}  # fmt: skip


def proposed_items(incidents: Iterable[Incident], extra: Folders = ()) -> tuple[Item, ...]:
    """Return items that would have told these incidents before they came; each once."""
    shipped = {
        f"{name}.{item.id}": item for name in checklist_names(extra) for item in load_checklist(name, extra).items
    }
    found: dict[str, Item] = {}
    for incident in incidents:
        before = len(found)
        area = _AREAS.get(incident.root_category or incident.category, "operation")
        prevents = (incident.signature,) if incident.signature else ()
        for name in _told_by(incident, extra):
            if name.startswith("checklist:"):
                item = shipped.get(name.removeprefix("checklist:"))
                if item is not None:
                    found.setdefault(item.id, item)
            else:
                found.setdefault(name, _of_rule(name, incident, area, prevents))
        if len(found) == before:
            name = _name(incident)
            found.setdefault(name, _of_person(name, incident, area, prevents))
    return tuple(found.values())


def _told_by(incident: Incident, extra: Folders) -> list[str]:
    """Rules and items that the incident, its signature and the remedies of its likeliest cause name."""
    named = [
        f"checklist:{p.id}" if p.kind == "checklist" else p.id
        for p in incident.caught_by
        if p.kind in ("rule", "checklist")
    ]
    if incident.signature is not None:
        from preflight.catalog.signature_files import load_signature

        signature = load_signature(incident.signature, extra)
        named += signature.caught_by if signature is not None else ()
    if incident.hypotheses:
        first = max(incident.hypotheses, key=lambda one: one.probability)
        for remedy in load_remedies(extra):
            if first.probability >= 0.5 and first.cause in remedy.causes and remedy.kind == "structural":
                named += remedy.caught_by
    from_rules = {name for name in named if not name.startswith("checklist:")}
    return list(dict.fromkeys(name for name in named if name in from_rules or name.startswith("checklist:")))


def _of_rule(rule: str, incident: Incident, area: str, prevents: tuple[str, ...]) -> Item:
    return Item(
        id=rule, title=f"preflight check finds no {rule.replace('-', ' ')}", why=f"It ended a run: {incident.headline}",
        area=area, critical=True, check=RulesCheck(rules=(rule,)), prevents=prevents,
    )  # fmt: skip


def _of_person(name: str, incident: Incident, area: str, prevents: tuple[str, ...]) -> Item:
    return Item(
        id=name, title=f"The cause of an earlier failure is gone: {incident.headline}", why=f"It ended a run: {incident.headline}",
        area=area, critical=True, check=PersonCheck(evidence="what was changed, and the runs since that did not fail"),
        prevents=prevents, remedies=tuple(one.remedy for one in incident.remedies[:3]),
    )  # fmt: skip


def _name(incident: Incident) -> str:
    about = incident.signature or incident.headline
    return re.sub(r"[^a-z0-9]+", "-", f"not-again-{about}".lower()).strip("-")[:60]


def as_toml(title: str, items: Sequence[Item], sources: Sequence[str]) -> str:
    """Return a checklist as the text of a file."""
    lines = [f"title = {_text(title)}", f"sources = {_texts(sources)}"]
    for item in items:
        lines += ["", "[[items]]", f"id = {_text(item.id)}", f"title = {_text(item.title)}", f"why = {_text(item.why)}"]
        lines += [f"area = {_text(item.area)}", f"critical = {str(item.critical).lower()}"]
        lines += ["person_may = true"] if item.person_may else []
        lines += [
            f"{name} = {_texts(words)}"
            for name, words in (("remedies", item.remedies), ("prevents", item.prevents))
            if words
        ]
        lines.append(f"check = {_check(item)}")
    return "\n".join(lines) + "\n"


def _check(item: Item) -> str:
    import msgspec

    told = msgspec.to_builtins(item.check)
    if isinstance(item.check, FunctionCheck):
        # A setting of the list that it came from is asked for under its own name in this one.
        told["options"] = dict(item.check.options)
    return _inline(told)


def _inline(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_inline(inner)}" for key, inner in value.items() if inner is not None) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_inline, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return _text(value) if isinstance(value, str) else repr(value)


def _text(text: str) -> str:
    """A basic string of TOML: that of JSON, with the one character that TOML does not let stand."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _texts(texts: Sequence[str]) -> str:
    return "[" + ", ".join(map(_text, texts)) + "]"


__all__ = ["as_toml", "proposed_items"]
