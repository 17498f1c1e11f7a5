"""Things that a script hands to something else, which may do with them what the script itself does not show."""

from __future__ import annotations

from typing import TYPE_CHECKING

from preflight.source.trace import Event, provenance
from preflight.source.values import Value

if TYPE_CHECKING:
    from preflight.check.context import Context

STEPS_NOTHING = ("builtins.", "torch.optim.lr_scheduler.", "torch.save", "transformers.get_")
"""How the names of calls begin that an optimizer may be handed to without being stepped there."""


def handed_on(context: Context, thing: Value, prefixes: tuple[str, ...] = (), names: tuple[str, ...] = ()) -> bool:
    """Whether code that was not followed is given a thing.

    Args:
        context: The check.
        thing: What may be handed on.
        prefixes: How the names of calls begin that do nothing with it.
        names: Whole names of such calls.
    """
    for event in context.trace.events:
        if event.inlined or event.result is thing or event.name.startswith(prefixes) or event.name in names:
            continue
        for value in (*event.args, *event.kwargs.values()):
            if any(part is thing for part in provenance(value, 12)):
                return True
    return False


def hands_on_optimizer(context: Context, event: Event) -> bool:
    """Whether a call gives an optimizer to code that was not followed, which may then step with it."""
    if event.inlined or event.name.startswith(("torch.", "builtins.")):
        return False
    return any(context.roles.of(a) == "optimizer" for a in (*event.args, *event.kwargs.values()))
