"""What would have told it before: rules of check, relations of monitor, items of checklists; or a draft of a new signature.

The rooms do not import each other: what is in them is known by its files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Literal

from preflight.investigate.redaction import PLACES, redact_text
from preflight.vocabulary.incident import Incident, Pointer, Quote, UnknownLines
from preflight.vocabulary.signature import Signature

_ROOMS: tuple[tuple[Literal["rule", "relation"], str], ...] = (
    ("rule", "check/rules"),
    ("rule", "check/run_rules"),
    ("rule", "check/notices"),
    ("relation", "monitor/relations"),
)
_TOLD = {
    "rule": "preflight check tells it before the start",
    "relation": "preflight monitor tells it within a few steps",
    "checklist": "an item to go through before the launch",
}
_SPEAKER = re.compile(r"^\[(?:rank|default)?\d+\]:\s*")
_CHANGING = re.compile(r"0x[0-9a-fA-F]+|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|/[^\s:,'\"]+")
_HIDDEN = re.compile("|".join(map(re.escape, PLACES)))
_NO_CATEGORY = ("none", "cannot-tell")
# A literal of a draft has to be long enough to be looked for in every line of every log.
_LEAST = 12


@cache
def _named(kind: Literal["rule", "relation"], folder: str) -> frozenset[str]:
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    here = os.path.join(package, *folder.split("/"))
    files = (name for _, _, names in os.walk(here) for name in names)
    return frozenset(name[:-3].replace("_", "-") for name in files if name.endswith(".py") and name != "__init__.py")


def kind_of(name: str) -> Literal["rule", "relation", "checklist"]:
    """Return what a name in ``caught_by`` is: a rule, a relation, or else an item of a checklist."""
    return next((kind for kind, folder in _ROOMS if name in _named(kind, folder)), "checklist")


def asks_a_run(rule: str) -> bool:
    """Return whether a rule is only asked of what a dry run saw, and not of the script as well."""
    return rule in _named("rule", "check/run_rules") - _named("rule", "check/rules")


def pointers_of(signature: Signature | None, incident: Incident) -> tuple[Pointer, ...]:
    """Return what would have told it before; where nothing explains the lines, a draft of a signature for them."""
    found = [
        Pointer(
            kind=kind, id=name, text=f"{_TOLD[kind]}: preflight explain {name}" if kind != "checklist" else _TOLD[kind]
        )
        for name in (signature.caught_by if signature is not None else ())
        for kind in (kind_of(name),)
    ]
    if signature is None:
        found += list(_drafts((*_raised(incident), *incident.unknown), incident.category))[:1]
    return tuple(found)


def _raised(incident: Incident) -> Iterator[UnknownLines]:
    """Yield the line of an exception that no signature takes, with its numbers, paths and addresses left open."""
    first = incident.first_failure
    if first is None or first.text is None or not (incident.signature or "").startswith("exception."):
        return
    text = _SPEAKER.sub("", first.text.strip())
    yield UnknownLines(template=_open(text), count=1, quote=Quote(first.path or "?", first.line or 0, text))


def _open(text: str) -> str:
    """Return the template of a line: what changes from run to run is left open, and so is what nobody else may read."""
    return _CHANGING.sub("<*>", _HIDDEN.sub("<*>", redact_text(text)))


def _drafts(unknown: Sequence[UnknownLines], category: str) -> Iterator[Pointer]:
    """Yield a draft for each template with enough fixed text; until a person says what it means, it is called by its line."""
    category = "other" if category in _NO_CATEGORY else category
    for one in unknown:
        if one.quote is None:
            continue
        shown = redact_text(one.quote.text.strip())
        template = one.template if shown == one.quote.text.strip() else _open(one.quote.text.strip())
        parts = [part.strip() for part in re.split(r"<[\w*]+>|<\*>", template)]
        literal = max(parts, key=len, default="")
        if len(literal) < _LEAST:
            continue
        name = "-".join(re.findall(r"[a-z]+", literal.lower())[:4]) or "line"
        regex = ".*?".join(re.escape(part) for part in parts if part)
        draft = "\n".join(
            (
                f"title = {_quoted(' ... '.join(part for part in parts if part))}  # better: what the line means",
                f'category = "{category}"  # oom, network, numerical, hardware, usercode, data, environment, checkpoint ...',
                'role = "root"  # or cascade, confirmation, teardown, progress, recovered, benign',
                f"literals = [{_quoted(literal)}]",
                f"regex = {_quoted(regex)}",
                f"match = [{_quoted(shown)}]",
                'no_match = ["SAY WHICH LINE IS CLOSE AND MEANS SOMETHING ELSE"]',
                f"sources = [{_quoted('an incident of your own')}]",
            )
        )
        yield Pointer(
            kind="signature",
            id=f"own.{name}",
            text=f"a signature for this line: save it as signatures/own/{name}.toml in your catalog folder",
            draft=draft,
        )


def _quoted(text: str) -> str:
    """Return a TOML string."""
    if "'" not in text and text.isprintable():
        return f"'{text}'"
    import json

    return json.dumps(text, ensure_ascii=True)
