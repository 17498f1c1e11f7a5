"""Decision trees on the command line: listed, drawn, walked."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from preflight.catalog.tree_files import load_tree, tree_names
from preflight.cli.parts.recording import catalog
from preflight.cli.parts.writing import Writing, put
from preflight.errors import UsageError, nearest
from preflight.investigate.answers import Facts
from preflight.investigate.trees import FIRST, tree_markdown, tree_mermaid, tree_text, walk, walk_text
from preflight.vocabulary.tree import Tree

UNDECIDABLE = 3
FORMATS = ("text", "markdown", "json", "html")


def listed(look: Writing) -> int:
    """List the trees."""
    folders = catalog()
    trees = [load_tree(name, folders) for name in tree_names(folders)]
    if look.format == "json":
        from preflight.report.parts.plain import encode

        put(
            encode(
                {"schema": "preflight.list/1", "kind": "trees", "trees": [_entry(one.id, one.title) for one in trees]}
            ),
            look,
        )
        return 0
    if look.format == "markdown":
        put("".join(f"- `{one.id}`: {one.title}\n" for one in trees), look)
        return 0
    if look.format == "html":
        from preflight.report.parts.sheet import sheet

        rows = "".join(f"| {one.id} | {one.title} |\n" for one in trees)
        put(sheet(f"# Decision trees\n\n| name | title |\n|---|---|\n{rows}"), look)
        return 0
    width = max(len(one.id) for one in trees)
    put("".join(f"{one.id:<{width}}  {one.title}\n" for one in trees), look)
    return 0


def _entry(name: str, title: str) -> dict[str, str]:
    return {"name": name, "title": title}


def shown(name: str, mermaid: bool, look: Writing) -> int:
    """Draw one tree."""
    tree = load_tree(name, catalog())
    if look.format == "json":
        import msgspec

        from preflight.report.parts.plain import encode

        put(encode({"schema": "preflight.tree/1", **msgspec.to_builtins(tree)}), look)
    elif mermaid:
        put(tree_mermaid(tree), look)
    elif look.format == "html":
        put(_drawn(tree.title, tree_text(tree)), look)
    else:
        put(tree_markdown(tree) if look.format == "markdown" else tree_text(tree), look)
    return 0


def _drawn(title: str, text: str) -> str:
    """A tree of lines as a page."""
    from preflight.report.parts.sheet import DRAWN, sheet

    lines = text.rstrip().removeprefix(f"{title}\n")  # the page has its title already
    return sheet(f"# {title}\n\n```{DRAWN}\n{lines}\n```\n")


def walked(name: str | None, report: str | None, told: tuple[str, ...], mermaid: bool, look: Writing) -> int:
    """Walk the trees with what is known."""
    answers = {}
    for word in told:
        question, equals, answer = word.partition("=")
        if not equals or not answer:
            raise UsageError(f"--say {word}: is not QUESTION=ANSWER", "for example: --say running=no")
        answers[question] = answer
    folders = catalog()
    _asked(answers, [load_tree(one, folders) for one in tree_names(folders)])
    way = walk(_facts(report), name or FIRST, answers, folders)
    if look.format == "json":
        import msgspec

        from preflight.report.parts.plain import encode

        put(encode({"schema": "preflight.walk/1", **msgspec.to_builtins(way)}), look)
    elif mermaid or look.format == "markdown":
        names = dict.fromkeys([name or FIRST, *(step.tree for step in way.steps)])
        draw = tree_mermaid if mermaid else tree_markdown
        put("\n".join(draw(load_tree(one, folders), way) for one in names), look)
    elif look.format == "html":
        put(_drawn("The way through the decision trees", walk_text(way, look.width)), look)
    else:
        put(walk_text(way, look.width), look)
    return 0 if way.leaf is not None else UNDECIDABLE


def _asked(answers: Iterable[str], trees: Sequence[Tree]) -> None:
    """Refuse an answer to a question that no tree asks: it would be left out without a word."""
    known = dict.fromkeys(question.id for tree in trees for question in tree.questions)
    full = [f"{tree.id}.{question.id}" for tree in trees for question in tree.questions]
    for name in answers:
        if name not in known and name not in full:
            near = nearest(name, [*known, *full])
            raise UsageError(
                f"--say {name}: no tree asks that", f"did you mean {near}?" if near else f"one of {', '.join(known)}"
            )


def _facts(report: str | None) -> Facts:
    """What is known: nothing, a report, or what is found in logs."""
    if report is None:
        return Facts()
    if report.endswith(".json") and os.path.isfile(report):
        from preflight.cli.parts.fixes import read_incident
        from preflight.errors import InputError

        try:
            return Facts(incident=read_incident(report))
        except InputError:
            pass  # a log in JSON
    from preflight.investigate.judge import judge
    from preflight.source.logs import read_logs

    reading = read_logs([report])
    return Facts(incident=judge(reading), reading=reading)


__all__ = ["listed", "shown", "walked"]
