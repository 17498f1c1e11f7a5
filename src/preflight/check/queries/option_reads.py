"""Which options of a command line anything reads: by attribute, by name as text, or by being handed on as a whole."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from preflight.source.trace import Event
from preflight.source.values import Dict, Obj, Seq, Value, options_of, plain

if TYPE_CHECKING:
    import ast

    from preflight.check.context import Context

# Calls that take a namespace whole and only show, store or pass it to code that was followed.
_SINKS = (
    r"^(builtins\.(print|str|repr|setattr|getattr|hasattr|isinstance|type|id|len|sorted)|pprint\.\w+|json\.dumps?|yaml\.\w*dump\w*"
    r"|pickle\.dumps?|torch\.save|torch\.multiprocessing\.(spawn|Process|start_processes)|multiprocessing\.Process|threading\.Thread"
    r"|functools\.partial|copy\.(deep)?copy|wandb\.(init|config\.update)|mlflow\.log_params|logging\.\w+|loguru\.\w+"
    r"|\.(info|debug|warning|log|write|add_text|add_hparams|log_hyperparams|save_hyperparameters|append|print|config|log_params|dump|track))$"
)


def handed_on(context: Context, holder: Obj) -> bool:
    """Whether a namespace leaves the code that was followed, so that anything may read its options."""
    for event in context.trace.events:
        if event.name == "builtins.vars":
            if _holds(event, holder) and not _only_shown(context, event):
                return True
        elif event.name == "builtins.getattr":
            if _holds(event, holder) and not _named(event):
                return True
        elif not event.inlined and not re.match(_SINKS, event.name) and _holds(event, holder):
            return True
    return False


def _named(event: Event) -> bool:
    return len(event.args) > 1 and isinstance(plain(event.args[1]), str)


def _holds(event: Event, holder: Obj) -> bool:
    return any(_is(value, holder, 2) for value in (*event.args, *event.kwargs.values()))


def _is(value: Value, holder: Value, depth: int) -> bool:
    for option in options_of(value, limit=4):
        if option is holder:
            return True
        if depth and isinstance(option, Seq) and any(_is(item, holder, depth - 1) for item in option.items[:12]):
            return True
        if (
            depth
            and isinstance(option, Dict)
            and any(_is(i, holder, depth - 1) for i in list(option.entries.values())[:24])
        ):
            return True
    return False


def _only_shown(context: Context, event: Event) -> bool:
    """Whether what ``vars`` returned is only printed or stored."""
    if event.result is None:
        return False
    users = [e for e in context.trace.events if e is not event and _uses(e, event.result)]
    return bool(users) and all(re.match(_SINKS, e.name) for e in users)


def _uses(event: Event, result: Value) -> bool:
    return event.receiver is result or any(_is(v, result, 1) for v in (*event.args, *event.kwargs.values()))


_MENTION = r"\.\s*([A-Za-z_]\w*)|(?<![\w-])(['\"])([A-Za-z_]\w*)\2"


def read_names(context: Context, names: dict[str, ast.AST]) -> Iterator[str]:
    """The names of options that some followed code mentions, apart from the declaration itself."""
    found = Counter(name for script in context.reading.scripts for name in _mentions(script.text))
    for name, node in names.items():
        declaration = context.reading.script.segment(node)
        if found[name] > sum(1 for mentioned in _mentions(declaration) if mentioned == name):
            yield name


def _mentions(text: str) -> Iterator[str]:
    """The names after a dot, and those that are a text of their own."""
    for attribute, _, quoted in re.findall(_MENTION, text):
        yield attribute or quoted
