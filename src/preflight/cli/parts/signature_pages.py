"""The page of a failure signature, from its file; and that of an error number of the driver."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from preflight.cli.parts.documents import Document, Entry, Section, render
from preflight.cli.parts.writing import Writing

ROLES = {
    "root": "names a cause, on the rank that printed it",
    "cascade": "points to somebody else, and is never a cause itself",
    "confirmation": "the kernel, a driver or a scheduler confirms it from outside",
    "teardown": "part of an end that was decided elsewhere",
    "progress": "the training goes on",
    "recovered": "went wrong and was mended",
    "benign": "means no harm",
}
PLAIN = {
    "cascade": "Do not stop here: look for what happened on the rank that it accuses, or before it.",
    "teardown": "Do not stop here: what decided the end stands earlier, or on another rank.",
    "recovered": "Where steps follow it, nothing has to be done; where none do, it was the beginning of the end.",
    "benign": "Nothing has to be done, and it is never taken for a failure.",
    "progress": "Nothing has to be done: it tells when the run was well.",
}
WHERE = {"log": "in what was collected", "node": "on the node", "run": "needs another run"}
MOST_REMEDIES = 12
NUMBER = re.compile(r"(s?xid)[ :._-]?(\d+)", re.IGNORECASE)


def is_signature(identifier: str, catalog: tuple[str, ...] = ()) -> bool:
    """Whether a signature has this id; ``network/watchdog-timeout`` is taken too."""
    from preflight.catalog.signature_files import signature_names

    return word(identifier) in signature_names(catalog)


def word(identifier: str) -> str:
    """The id as signatures write theirs."""
    return identifier.strip().lower().removesuffix(".toml").replace("/", ".").replace("_", "-")


def nearest_signature(identifier: str, catalog: tuple[str, ...] = ()) -> str | None:
    """The id closest to this one, or whose name behind the family is; None where there is none."""
    from preflight.catalog.signature_files import signature_names
    from preflight.errors import nearest

    names = signature_names(catalog)
    wanted = word(identifier)
    short = {name.partition(".")[2]: name for name in names}
    return short.get(wanted) or nearest(wanted, names) or short.get(nearest(wanted, short) or "")


def signature_page(identifier: str, catalog: tuple[str, ...] = ()) -> dict[str, Any]:
    """Everything that is known of a signature, as plain values.

    Raises:
        LookupError: There is none of this id.
    """
    from preflight.catalog.signature_files import load_signature

    signature = load_signature(word(identifier), catalog)
    if signature is None:
        raise LookupError(identifier)
    page = {name: getattr(signature, name) for name in signature.__struct_fields__}
    page = {name: list(value) if isinstance(value, tuple) else value for name, value in page.items()}
    page["causes"] = [
        {
            "id": cause.id, "title": cause.title, "prior": cause.prior,
            "category": cause.category or signature.category, "discriminated_by": list(cause.discriminated_by),
        }
        for cause in signature.causes
    ]  # fmt: skip
    page["causes"].sort(key=lambda cause: -cause["prior"])
    told: dict[str, list[str]] = {}
    for cause in page["causes"]:
        for name in cause["discriminated_by"]:
            told.setdefault(name, []).append(cause["id"])
    causes = {cause["id"]: cause["prior"] for cause in page["causes"]}
    return {
        "schema": "preflight.signature/1", "name": signature.id, "family": signature.id.partition(".")[0], **page,
        "observations": observations(told),
        "remedy_titles": remedy_titles(causes, signature.id, catalog),
        "told_before": told_before(signature.caught_by, catalog),
    }  # fmt: skip


def observations(told: dict[str, list[str]]) -> list[dict[str, Any]]:
    """Return what the names of observations stand for, the cheapest first, each with the causes that it tells of."""
    from preflight.catalog.observation_names import looked_for

    known = looked_for()
    found = [
        {"name": name, "causes": causes, **msgspec.to_builtins(known[name])}
        for name, causes in sorted(told.items(), key=lambda one: known[one[0]].rank if one[0] in known else 9)
        if name in known
    ]
    return found


def remedy_titles(
    causes: dict[str, float], signature: str | None = None, catalog: tuple[str, ...] = ()
) -> list[dict[str, Any]]:
    """Return the remedies against these causes, in the order in which an investigation would name them."""
    from preflight.catalog.remedy_files import load_remedy
    from preflight.investigate.remedies import remedies_for

    found = []
    for one in (load_remedy(told.remedy, catalog) for told in remedies_for(causes, signature, catalog, MOST_REMEDIES)):
        kind = "lets the run go on" if one.hides else "shows the cause" if one.observes else one.kind
        against = [cause for cause in causes if cause in one.causes]
        found.append({"name": one.id, "title": one.title, "kind": kind, "causes": against})
    return found


def told_before(names: tuple[str, ...], catalog: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """Return what the rules, relations and items of checklists are that would have told it."""
    from preflight.check.notices import all_rules
    from preflight.investigate.beside.pointers import kind_of
    from preflight.monitor.relation import relations

    rules = {loaded.rule.name: loaded for loaded in all_rules()} if names else {}
    found = []
    for name in names:
        kind, title = kind_of(name), ""
        if name in rules:
            title = rules[name].page.strip().partition("\n")[0]
        elif kind == "relation":
            from preflight.cli.parts.relation_pages import relation_page

            title = relation_page(name)["title"] if name in relations() else ""
        else:
            title = _item_title(name, catalog)
        found.append({"name": name, "kind": kind, "title": title.rstrip(".")})
    return found


def _item_title(name: str, catalog: tuple[str, ...]) -> str:
    from preflight.catalog.checklist_files import checklist_names, load_checklist

    wanted = name.removeprefix("checklist:").rpartition(".")
    for one in checklist_names(catalog):
        if wanted[0] in ("", one):
            for item in load_checklist(one, catalog).items:
                if item.id == wanted[2]:
                    return item.title
    return ""


def driver_error_page(identifier: str) -> dict[str, Any] | None:
    """What an error number of the driver stands for (``xid-79``, ``sxid 20034``); None where it is not one that is known."""
    from preflight.catalog.xid_codes import driver_error

    found = NUMBER.fullmatch(identifier.strip())
    if found is None:
        return None
    kind = "sxid" if found[1].lower() == "sxid" else "xid"
    error = driver_error(int(found[2]), "sxid" if kind == "sxid" else "xid")
    return None if error is None else {"schema": "preflight.driver-error/1", "kind": kind, **msgspec.to_builtins(error)}


def render_driver_error(page: dict[str, Any], look: Writing) -> str:
    """The page of an error number in the format that was asked for."""
    shown = {"xid": "Xid", "sxid": "SXid"}[page["kind"]]
    told = [page["meaning"] + ".", f"Category: {page['category']}."]
    told += ["The card does not go on without a reset." for _ in range(page["fatal"])]
    told += ["As a rule it follows another error: look for the earlier one." for _ in range(page["follows"])]
    document = Document(f"{shown} {page['code']} {page['name']}", (*told, f"First: {page['advice']}"))
    return render(document, page, look)


def render_signature(page: dict[str, Any], look: Writing) -> str:
    """The page in the format that was asked for."""
    return render(signature_document(page), page, look)


def about(page: dict[str, Any]) -> str:
    """Return in one line what kind of a signature it is."""
    category = "" if page["category"] == "none" else f"; looks like {page['category']}"
    return f"{page['role']}: {ROLES[page['role']]}{category}"


def signature_document(page: dict[str, Any]) -> Document:
    """Return the page in order: what it means, what is behind it, how to tell, what to do, how it is recognised."""
    causes = tuple(
        Entry(cause["title"], f"{cause['id']}; {cause['category']}", f"{cause['prior']:.0%}")
        for cause in page["causes"]
    )
    return Document(
        page["name"],
        (page["title"], about(page)),
        (*page["page"].strip().splitlines(), *_notes(page)),
        (
            Section("What may be behind it", causes, note="how often, when it is seen alone: a judgement, not a count"),
            observation_section(page["observations"], several=len(causes) > 1),
            Section("What to do next", tuple(Entry(step) for step in page["next"]), "steps"),
            remedy_section(page["remedy_titles"]),
            Section(
                "What would have told it before",
                tuple(
                    Entry(one["title"] or one["kind"], f"{one['name']}; {one['kind']}") for one in page["told_before"]
                ),
            ),
            Section("Taken, for example", tuple(Entry(line) for line in page["match"]), "quoted"),
            Section("Not taken", tuple(Entry(line) for line in page["no_match"]), "quoted"),
            Section("Where the text stands", tuple(Entry(source) for source in page["sources"])),
        ),
    )


def observation_section(found: list[dict[str, Any]], several: bool = True) -> Section:
    """Return what to look at, the cheapest first, with the commands."""
    return Section(
        "What tells them apart" if several else "What tells it",
        tuple(
            Entry(
                f"Look at {one['look']} ({WHERE[one['where']]}"
                + (f"; about {', '.join(one['causes'])})" if several else ")"),
                one["name"],
                command=one.get("command"),
            )
            for one in found
        ),
    )


def remedy_section(found: list[dict[str, Any]]) -> Section:
    """Return the remedies, each with what it is against."""
    return Section(
        "Remedies",
        tuple(
            Entry(
                one["title"]
                + f" ({one['kind']}"
                + (f", against {', '.join(one['causes'])})" if one["causes"] else ")"),
                one["name"],
            )
            for one in found
        ),
        note="preflight investigate fix NAME shows one",
    )


def _notes(page: dict[str, Any]) -> list[str]:
    """What the fields of the line are used for, in sentences."""
    notes: list[str] = []
    if page["role"] in PLAIN:
        notes.append(PLAIN[page["role"]])
    if page["shift"]:
        notes.append(f"The trouble began by its `{page['shift']}` (milliseconds) earlier than the line was printed.")
    if page["points_to"]:
        notes.append(f"It accuses the one in `{page['points_to']}`, not the one that printed it.")
    if page["subject"]:
        notes.append(f"It is about the one in `{page['subject']}`; somebody else prints it.")
    if page["marks"]:
        notes.append(f"It marks a moment of the run: {page['marks']}.")
    if page["supersedes"]:
        notes.append(
            f"Seen on the same rank it says more than {', '.join(f'`{name}`' for name in page['supersedes'])}."
        )
    return notes


def signature_markdown(identifier: str) -> str:
    """Return the page of a shipped signature as Markdown."""
    from preflight.cli.parts.documents import markdown

    return markdown(signature_document(signature_page(identifier)))
