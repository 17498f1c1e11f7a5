"""Decision trees, walked by evidence: which questions were asked, what answered them, and where that leads."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from preflight.catalog.files import Folders
from preflight.catalog.tree_files import load_tree
from preflight.errors import UsageError
from preflight.investigate import answers
from preflight.investigate.answers import Answer, Facts
from preflight.vocabulary.tree import Leaf, Question, Step, Tree, Walk

FIRST = "triage"
_MOST = 100


def walk(
    facts: Facts, start: str = FIRST, told: Mapping[str, str] | None = None, extra: Folders = (), follow: bool = True
) -> Walk:
    """Walk a tree, and those to which its leaves lead.

    Args:
        facts: What is known.
        start: The first tree.
        told: Answers of a person by ``question`` or ``tree.question``; they win over what is known.
        extra: Folders of the user's catalog.
        follow: Whether to go on into the tree that a leaf names.

    Raises:
        UsageError: A person's answer is none of the question's.
    """
    tree = load_tree(start, extra)
    place: Question | Leaf = tree.questions[0]
    steps: list[Step] = []
    for _ in range(_MOST):
        if isinstance(place, Leaf):
            if place.tree is None or not follow:
                return Walk(steps=tuple(steps), leaf=place)
            tree = load_tree(place.tree, extra)
            place = tree.questions[0]
        else:
            step, target = _asked(tree, place, facts, told or {})
            steps.append(step)
            if target is None:
                return Walk(steps=tuple(steps), open=place.find_out)
            place = _place(tree, target)
    return Walk(steps=tuple(steps), open="the trees lead in a circle")


def _asked(tree: Tree, question: Question, facts: Facts, told: Mapping[str, str]) -> tuple[Step, str | None]:
    """Answer one question; return the step and where it leads."""
    said = told.get(f"{tree.id}.{question.id}", told.get(question.id))
    targets = {branch.answer: branch.to for branch in question.branches}
    if said is not None:
        if said not in targets:
            raise UsageError(f"{question.text} {said!r} is no answer", f"one of {', '.join(targets)}")
        answer = Answer(said, "a person says so")
    else:
        ask: Callable[[Facts], Answer] = getattr(answers, question.ask)
        answer = ask(facts)
        if answer.answer is not None and answer.answer not in targets:
            answer = Answer(None, f"{answer.because}; {answer.answer!r} is no branch of this tree")
    step = Step(
        tree=tree.id, question=question.id, text=question.text, answer=answer.answer, because=answer.because,
        quotes=answer.quotes, by_person=said is not None,
    )  # fmt: skip
    return step, None if answer.answer is None else targets[answer.answer]


def _place(tree: Tree, name: str) -> Question | Leaf:
    places: list[Question | Leaf] = [*tree.questions, *tree.leaves]
    return next(one for one in places if one.id == name)


def walk_text(walked: Walk, width: int = 100) -> str:
    """Return a walk as text: a paragraph for each question, and where it ended."""
    import textwrap

    lines: list[str] = []
    for step in walked.steps:
        lines += textwrap.wrap(f"{step.text} {step.said}: {step.because}", width, subsequent_indent="  ")
        for quote in step.quotes[:1]:
            place = f"{quote.path}:{quote.line}: "
            said = " ".join(quote.text.split())
            room = max(2 * width - len(place) - 12, 40)
            lines += textwrap.wrap(
                place + (said if len(said) <= room else f"{said[: room - 3]}..."),
                width, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False,
            )  # fmt: skip
    if walked.leaf is not None:
        lines.append(f"=> {walked.leaf.text}")
        for number, one in enumerate(walked.leaf.next, 1):
            lines += textwrap.wrap(f"{number}. {one}", width, initial_indent="   ", subsequent_indent="      ")
        if walked.leaf.remedies:
            said = f"remedies: {', '.join(walked.leaf.remedies)}"
            lines += textwrap.wrap(said, width, initial_indent="   ", subsequent_indent="   ", break_on_hyphens=False)
    elif walked.open is not None:
        lines += textwrap.wrap(f"=> cannot tell; to go on: {walked.open}", width, subsequent_indent="   ")
    return "\n".join(lines) + "\n"


def tree_text(tree: Tree, walked: Walk | None = None) -> str:
    """Return a tree as text; the way that was walked is marked with ``>``."""
    taken = _taken(tree, walked)
    lines: list[str] = [tree.title]

    def draw(name: str, indent: str, seen: frozenset[str]) -> None:
        place = _place(tree, name)
        if isinstance(place, Leaf):
            return
        for number, branch in enumerate(place.branches):
            last = number == len(place.branches) - 1
            mark = ">" if (place.id, branch.answer) in taken else " "
            target = _place(tree, branch.to)
            again = branch.to in seen and isinstance(target, Question)
            onward = f" (tree {target.tree})" if isinstance(target, Leaf) and target.tree else ""
            lines.append(
                f"{indent}{'└' if last else '├'}─{mark}{branch.answer}: {target.text}{onward}{' (above)' if again else ''}"
            )
            if not again:
                draw(branch.to, indent + ("   " if last else "│  "), seen | {branch.to})

    first = tree.questions[0]
    lines.append(first.text)
    draw(first.id, "", frozenset({first.id}))
    return "\n".join(lines) + "\n"


def tree_mermaid(tree: Tree, walked: Walk | None = None) -> str:
    """Return a tree as a Mermaid flow chart; the way that was walked is thick."""
    taken = _taken(tree, walked)
    lines = ["flowchart TD"]
    lines += [f'  {_key(one.id)}{{"{_quoted(one.text)}"}}' for one in tree.questions]
    lines += [f'  {_key(one.id)}["{_quoted(one.text)}"]' for one in tree.leaves]
    for question in tree.questions:
        lines += [
            f"  {_key(question.id)} {'==>' if (question.id, branch.answer) in taken else '-->'}|{branch.answer}| {_key(branch.to)}"
            for branch in question.branches
        ]
    return "\n".join(lines) + "\n"


def tree_markdown(tree: Tree, walked: Walk | None = None) -> str:
    """Return a tree as a page: the chart, the note, and what each leaf says."""
    parts = [f"# {tree.title}\n", f"```mermaid\n{tree_mermaid(tree, walked)}```\n"]
    if tree.note:
        parts.append(f"{tree.note}\n")
    for leaf in tree.leaves:
        body = [f"## {leaf.text}\n", *(f"{number}. {one}" for number, one in enumerate(leaf.next, 1))]
        body += [f"\nGoes on with the tree `{leaf.tree}`."] if leaf.tree else []
        body += [f"\nRemedies: {', '.join(f'`{one}`' for one in leaf.remedies)}."] if leaf.remedies else []
        parts.append("\n".join(body) + "\n")
    return "\n".join(parts)


def _taken(tree: Tree, walked: Walk | None) -> set[tuple[str, str]]:
    steps = walked.steps if walked is not None else ()
    return {(step.question, step.answer) for step in steps if step.tree == tree.id and step.answer is not None}


def _key(name: str) -> str:
    """A name that a chart can have for a node."""
    return f"n_{name.replace('-', '_')}"


def _quoted(text: str) -> str:
    return text.replace('"', "#quot;")


__all__ = ["FIRST", "tree_markdown", "tree_mermaid", "tree_text", "walk", "walk_text"]
