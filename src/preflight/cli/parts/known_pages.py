"""The pages of what signatures name: causes, what tells them apart, experiments; and of what else is listed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from preflight.cli.parts.documents import Document, Entry, Section, render
from preflight.cli.parts.model_pages import model_page
from preflight.cli.parts.signature_pages import observation_section, observations, remedy_section, remedy_titles
from preflight.cli.parts.tables import rows
from preflight.cli.parts.writing import Writing

Catalog = tuple[str, ...]
LISTED = ("models", "probes")
"""Kinds of lists whose rows are their pages."""


def known_page(identifier: str, catalog: Catalog, look: Writing) -> str | None:
    """Return the page of anything but rules, relations and signatures that bears this name; None where nothing does."""
    wanted = identifier.strip().lower()
    for page in (_remedy, _cause, _observation, _experiment, _checklist, _tree):
        told = page(wanted.replace("_", "-"), catalog, look)
        if told is not None:
            return told
    # Models are written as their makers write them, GPUs as people do: here the line is not the underscore.
    for page in (model_page, _probe, _gpu):
        told = page(wanted, catalog, look)
        if told is not None:
            return told
    return None


def known_names(catalog: Catalog) -> Iterator[str]:
    """Yield every name that has such a page."""
    from preflight.catalog.checklist_files import checklist_names
    from preflight.catalog.experiment_files import load_experiments
    from preflight.catalog.hardware import gpu_names
    from preflight.catalog.observation_names import looked_for
    from preflight.catalog.remedy_files import remedy_names
    from preflight.catalog.tree_files import tree_names

    yield from remedy_names(catalog)
    yield from _causes(catalog)
    yield from looked_for()
    yield from (one.id for one in load_experiments(catalog))
    yield from checklist_names(catalog)
    yield from tree_names(catalog)
    yield from gpu_names(catalog)
    yield from (str(row["name"]) for kind in LISTED for row in rows(kind, (), catalog))


def _causes(catalog: Catalog) -> dict[str, list[tuple[Any, Any]]]:
    """Every cause with the signatures that name it and what they say of it, the one in which it is likeliest first."""
    from preflight.catalog.signature_files import load_signatures

    found: dict[str, list[tuple[Any, Any]]] = {}
    for signature in load_signatures(catalog):
        for cause in signature.causes:
            found.setdefault(cause.id, []).append((signature, cause))
    for told in found.values():
        told.sort(key=lambda one: (-one[1].prior, one[0].id))
    return found


def _cause(name: str, catalog: Catalog, look: Writing) -> str | None:
    told = _causes(catalog).get(name)
    if told is None:
        return None
    signature, first = told[0]
    titles = list(dict.fromkeys(cause.title for _, cause in told))
    category = first.category or signature.category
    seen: dict[str, list[str]] = {}
    for _, cause in told:
        for one in cause.discriminated_by:
            seen.setdefault(one, [name])
    values = {
        "schema": "preflight.cause/1", "name": name, "category": category, "titles": titles,
        "signatures": [{"name": one.id, "title": one.title, "prior": cause.prior} for one, cause in told],
        "observations": observations(seen), "remedies": remedy_titles({name: 1.0}, None, catalog),
        "experiments": _expected(name, catalog),
    }  # fmt: skip
    others = (f"In other words: {'; '.join(titles[1:4])}.",) if titles[1:] else ()
    document = Document(
        name,
        (titles[0], f"a cause; {category}"),
        others,
        (
            Section(
                "Lines behind which it may be",
                tuple(Entry(one["title"], one["name"], f"{one['prior']:.0%}") for one in values["signatures"]),
                note="how often, when the line is seen alone: a judgement, not a count",
            ),
            observation_section(values["observations"], several=False),
            Section(
                "Experiments",
                tuple(Entry(f"{one['title']}: {one['says']}", one["name"]) for one in values["experiments"]),
            ),
            remedy_section(values["remedies"]),
        ),
    )
    return render(document, values, look)


def _expected(cause: str, catalog: Catalog) -> list[dict[str, Any]]:
    """The experiments that say something of a cause, those that say most first."""
    from preflight.catalog.experiment_files import load_experiments

    found = []
    for one in load_experiments(catalog):
        expected = one.expects.get(cause)
        if expected is None:
            continue
        gain = [here / max(else_, 0.01) for here, else_ in zip(expected, one.otherwise, strict=True)]
        best = max(range(len(gain)), key=gain.__getitem__)
        outcome = one.outcomes[best]
        says = (
            f"{outcome.seen}, in {expected[best]:.0%} where it is the cause, {one.otherwise[best]:.0%} where it is not"
        )
        found.append((gain[best], {"name": one.id, "title": one.title, "outcome": outcome.name, "says": says}))
    return [told for _, told in sorted(found, key=lambda one: (-one[0], one[1]["name"]))]


def _observation(name: str, catalog: Catalog, look: Writing) -> str | None:
    from preflight.catalog.experiment_files import load_experiments
    from preflight.catalog.observation_names import looked_for
    from preflight.cli.parts.signature_pages import WHERE

    known = looked_for().get(name)
    if known is None:
        return None
    causes = {
        cause: told[0][1].title
        for cause, told in _causes(catalog).items()
        if any(name in one.discriminated_by for _, one in told)
    }
    values = {"schema": "preflight.observation/1", "name": name, **msgspec.to_builtins(known), "causes": causes}
    shown = [told for one in load_experiments(catalog) if one.id == name for told in one.outcomes]
    document = Document(
        name,
        (f"Look at {known.look}", f"something that tells causes apart; {WHERE[known.where]}"),
        sections=(
            Section("How", (Entry("on the machine that it is about", command=known.command),) if known.command else ()),
            Section("What it may show", tuple(Entry(told.seen, told.name) for told in shown)),
            Section("Causes of which it tells", tuple(Entry(title, cause) for cause, title in sorted(causes.items()))),
        ),
    )
    return render(document, values, look)


def _experiment(name: str, catalog: Catalog, look: Writing) -> str | None:
    from preflight.catalog.experiment_files import load_experiments

    one = next((one for one in load_experiments(catalog) if one.id == name), None)
    if one is None:
        return None
    values = {"schema": "preflight.experiment/1", **msgspec.to_builtins(one)}
    cost = f"{one.minutes:g} min on {'no card' if not one.gpus else 'all cards' if one.gpus >= 1 else f'{one.gpus:.0%} of the cards'}"
    document = Document(
        name,
        (one.title, f"an experiment; {cost}; danger: {one.danger}"),
        (one.how, *((f"Undone by: {one.undo}",) if one.undo else ())),
        (
            Section("What it may show", tuple(Entry(told.seen, told.name) for told in one.outcomes)),
            Section(
                "How probable these are, by cause",
                tuple(
                    Entry(", ".join(f"{share:.0%}" for share in shares), cause)
                    for cause, shares in (*one.expects.items(), ("any other", one.otherwise))
                ),
            ),
            Section("Where it stands", tuple(Entry(source) for source in one.sources)),
        ),
    )
    return render(document, values, look)


def _remedy(name: str, catalog: Catalog, look: Writing) -> str | None:
    from preflight.catalog.remedy_files import load_remedy, remedy_names
    from preflight.cli.parts.fixes import remedy_page

    return remedy_page(load_remedy(name, catalog), look) if name in remedy_names(catalog) else None


def _checklist(name: str, catalog: Catalog, look: Writing) -> str | None:
    from preflight.catalog.checklist_files import checklist_names, load_checklist

    if name not in checklist_names(catalog):
        return None
    one = load_checklist(name, catalog)
    critical = sum(item.critical for item in one.items)
    document = Document(
        name,
        (one.title, f"a checklist; {len(one.items)} items, {critical} of them critical"),
        sections=(
            Section(
                "Items",
                tuple(
                    Entry(f"{item.title}{' (critical)' if item.critical else ''}: {item.why}", item.id)
                    for item in one.items
                ),
                "steps",
            ),
            Section("To go through it", (Entry("on this machine", command=f"preflight investigate checklist {name}"),)),
        ),
    )
    return render(document, {"schema": "preflight.checklist/1", **msgspec.to_builtins(one)}, look)


def _tree(name: str, catalog: Catalog, look: Writing) -> str | None:
    from preflight.catalog.tree_files import load_tree, tree_names
    from preflight.investigate.trees import tree_text

    if name not in tree_names(catalog):
        return None
    tree = load_tree(name, catalog)
    drawn = tuple(Entry(line) for line in tree_text(tree).splitlines()[1:])
    document = Document(
        name,
        (tree.title, "a decision tree"),
        sections=(
            Section("Questions and ends", drawn, "quoted"),
            Section("To walk it", (Entry("with logs", command=f"preflight investigate tree {name} --for LOGS"),)),
        ),
    )
    return render(document, {"schema": "preflight.tree/1", **msgspec.to_builtins(tree)}, look)


def _probe(name: str, catalog: Catalog, look: Writing) -> str | None:
    """The row of a probe as a page."""
    row = next((row for row in rows("probes", (), catalog) if str(row["name"]).lower() == name), None)
    if row is None:
        return None
    said = tuple(Entry(f"{key}: {value}") for key, value in row.items() if key not in ("name", "title"))
    ways = (Entry("on this machine", command=f"preflight investigate probe {name}"),)
    document = Document(
        name,
        (str(row["title"]), "a probe"),
        sections=(Section("What is known", said), Section("To run it", ways)),
    )
    return render(document, {"schema": "preflight.row/1", "kind": "probes", **row}, look)


def _gpu(name: str, catalog: Catalog, look: Writing) -> str | None:
    from preflight.cli.parts.gpu_pages import gpu_document, gpu_values, named_gpu

    gpu = named_gpu(name, catalog)
    return render(gpu_document(gpu, catalog), gpu_values(gpu, catalog), look) if gpu is not None else None
