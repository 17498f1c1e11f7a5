"""Lightning modules that a trainer is given, what they log, and whether they optimize by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from preflight.source.values import Dict, Func, Known, Obj, Value, options_of, settle

if TYPE_CHECKING:
    from preflight.check.context import Context

_BASE = "lightning.pytorch.LightningModule"


def module_of_lightning(value: Value | None) -> Obj | None:
    """The module of the project's own classes that a value is; None for anything else."""
    for option in options_of(value, limit=3):
        if isinstance(option, Obj) and option.cls is not None and _BASE in option.cls.external_bases():
            return option
    return None


def fitted(context: Context) -> list[Obj]:
    """The modules that trainers are given to fit, each once."""
    found: list[Obj] = []
    for event in context.trace.calls(".fit"):
        trainer = settle(event.receiver) if event.receiver is not None else None
        if not isinstance(trainer, Obj) or trainer.name != "lightning.pytorch.Trainer" or event.context.shadow:
            continue
        module = module_of_lightning(event.argument(0, "model"))
        if module is not None and all(module is not other for other in found):
            found.append(module)
    return found


def optimizes_by_hand(module: Obj) -> bool | None:
    """Whether a module switches automatic optimization off; None where that is not known."""
    assert module.cls is not None
    member = module.cls.lookup("automatic_optimization")
    foreign = [b for b in module.cls.external_bases() if b != "abc.ABC" and not b.startswith("lightning.pytorch.")]
    if isinstance(member, Func) or foreign:
        return None
    held = module.attrs.get("automatic_optimization", member)
    if held is None or (isinstance(held, Obj) and held.kind == "attr"):
        return False
    if not isinstance(held, Known) or held.soft or not isinstance(held.value, bool):
        return None  # a caller or an option decides
    return not held.value


def logged(context: Context) -> set[str] | None:
    """The names under which modules log something; None where they log nothing, or under a name that is not known."""
    names: set[str] = set()
    for event in context.trace.calls(".log", ".log_dict"):
        base = settle(event.receiver) if event.receiver is not None else None
        if isinstance(base, Obj) and module_of_lightning(base) is None:
            continue  # a tracker, a logger
        given = settle(event.args[0]) if event.args else next(iter(map(settle, event.kwargs.values())), None)
        if event.name == ".log_dict" and isinstance(given, Dict) and not given.open:
            names.update(str(key) for key in given.entries)
        elif event.name == ".log" and isinstance(given, Known) and isinstance(given.value, str):
            names.add(given.value)
        else:
            return None
    put = _put_by_hand(context)
    return (names | put) or None if put is not None else None


def _put_by_hand(context: Context) -> set[str] | None:
    """The names that are written into ``trainer.callback_metrics``; None where one of them is not known."""
    names: set[str] = set()
    for store in context.trace.stores:
        if not _is_metrics(store.target):
            continue
        if not (store.name.startswith(("['", '["')) and store.name.endswith(("']", '"]'))):
            return None
        names.add(store.name[2:-2])
    for event in context.trace.calls(".update", ".setdefault"):
        if not _is_metrics(event.receiver):
            continue
        given = settle(event.args[0]) if event.args else None
        if isinstance(given, Dict) and not given.open and event.name == ".update":
            names.update(str(key) for key in given.entries)
        elif isinstance(given, Known) and isinstance(given.value, str):
            names.add(given.value)
        else:
            return None
    return names


def _is_metrics(value: Value | None) -> bool:
    return any(
        isinstance(one, Obj) and one.kind == "attr" and one.name == "callback_metrics" for one in options_of(value)
    )


__all__ = ["fitted", "logged", "module_of_lightning", "optimizes_by_hand"]
