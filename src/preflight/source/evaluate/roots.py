"""Functions that nothing in the script calls: followed on their own, with parameters that are not known."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from preflight.source.evaluate.functions import call_function, make_function
from preflight.source.trace import Context, provenance
from preflight.source.values import Bound, Class, Ext, Func, Known, Module, Obj, Unknown, Value, settle

if TYPE_CHECKING:
    from preflight.source.evaluate.machine import Machine

ROOT_STEPS = 60_000
_COMMANDS = ("click.Command", "click.Group")  # what a command's decorator makes of a function, which it keeps


def follow_uncalled(m: Machine) -> None:
    """Follow every function and method of the script that was not reached.

    What others of the script call by its name waits for them: it is then followed from there, with what they hand over and
    in the modes that they have entered (``torch.no_grad``).
    """
    spoken = {
        func.attr if isinstance(func, ast.Attribute) else func.id
        for call in m.module.script.nodes(ast.Call)
        if isinstance(func := call.func, (ast.Attribute, ast.Name))
    }
    _follow_those(m, lambda func: getattr(func.node, "name", None) not in spoken)
    _follow_those(m, lambda func: True)


_LOADERS = {
    "torch.utils.data.DataLoader": ((0, "dataset"), (6, "collate_fn")),
    "torch_geometric.loader.DataLoader": ((0, "dataset"),),
    "transformers.Trainer": ((3, "train_dataset"), (2, "data_collator")),
    "transformers.Seq2SeqTrainer": ((3, "train_dataset"), (2, "data_collator")),
}


def follow_data(m: Machine) -> None:
    """Follow what loaders call: how a data set reads a sample, and how samples become a batch.

    What a loader hands out is not known by it, but how long a text is cut and how large an image is made stands there.
    """
    for made in [e.result for name in _LOADERS for e in m.trace.by_name.get(name, ())]:
        if not isinstance(made, Obj):
            continue
        for position, keyword in _LOADERS.get(made.name, ()):
            for part in list(provenance(made.argument(position, keyword), 60)):
                if isinstance(part, Bound):
                    owner = settle(part.receiver)
                    _guarded(m, part.func, owner if isinstance(owner, Obj) else None)
                elif isinstance(part, Func) and keyword != "dataset":
                    _guarded(m, part, None)
                elif isinstance(part, Obj) and part.cls is not None:
                    method = part.cls.lookup("__getitem__" if "dataset" in keyword else "__call__")
                    if isinstance(method, Func):
                        _guarded(m, method, part)


def _follow_those(m: Machine, wanted: Callable[[Func], bool]) -> None:
    module = m.module
    for value in list(module.namespace.values()):
        if isinstance(value, Obj) and value.name in _COMMANDS and isinstance(value.data, tuple):
            value = value.data[0]
        if isinstance(value, Func) and value.module is module and wanted(value):
            _guarded(m, value, None)
        elif isinstance(value, Class) and value.module is module:
            methods = [f for f in value.namespace.values() if isinstance(f, Func) and id(f.node) not in m.entered]
            owner: Obj | None = None
            for method in methods:
                if id(method.node) in m.entered or not wanted(method):
                    continue
                owner = owner or _made(m, value)
                if owner is None:
                    break
                _guarded(m, method, owner)


def _made(m: Machine, cls: Class) -> Obj | None:
    """An instance on whose methods nothing was called; None where its constructor was not followed to its end."""
    made: list[Obj] = []
    _on_budget(m, cls.qualname, lambda: made.append(_instance(m, cls)))
    return made[0] if made else None


def _guarded(m: Machine, func: Func, owner: Obj | None) -> None:
    if id(func.node) not in m.entered:
        _on_budget(m, func.qualname, lambda: _follow(m, func, owner))


def _on_budget(m: Machine, name: str, follow: Callable[[], None]) -> None:
    """Follow something on a budget of its own; what has none left is noted by its name."""
    from preflight.source.evaluate.frame import Exhausted

    limit = m.max_steps
    m.max_steps = min(m.steps + ROOT_STEPS, max(limit, m.steps + 2_000) + ROOT_STEPS)
    try:
        follow()
    except (Exhausted, RecursionError):
        m.trace.notes.append(f"{name} was not followed to its end")
    finally:
        m.max_steps = limit


def _follow(m: Machine, func: Func, owner: Obj | None) -> None:
    outer, frame = m.context, m.frame
    m.context = Context(None, "root", func.node, func.module.script, func)
    m.journal = None
    m.call_stack.clear()
    try:
        args: list[Value] = []
        spec = func.node.args
        names = [*spec.posonlyargs, *spec.args]
        kinds = {d.name for d in func.decorators if isinstance(d, Ext)}
        if owner is not None and names and "builtins.staticmethod" not in kinds:
            args.append((owner.cls if "builtins.classmethod" in kinds else None) or owner)
            names = names[1:]
        args.extend(parameter(m, func, arg) for arg in names)
        kwargs = {arg.arg: parameter(m, func, arg) for arg in spec.kwonlyargs}
        call_function(m, func, args, kwargs, func.node)
    finally:
        m.context, m.frame = outer, frame


def parameter(m: Machine, func: Func, arg: ast.arg) -> Value:
    """What a parameter holds when the caller is not known: its default, or a thing of its annotated type."""
    default = func.defaults.get(arg.arg)
    if default is not None:
        settled = settle(default)
        if isinstance(settled, Known) and settled.value is not None:
            return Known(settled.value, settled.site, f"default of {func.qualname}({arg.arg})", True)
    if arg.annotation is not None:
        found = _annotated(m, func, arg)
        if found is not None:
            return found
    return Unknown(f"parameter {arg.arg} of {func.qualname}", m.site(arg), name=arg.arg)


_PLAIN = frozenset("int float str bool list dict tuple set bytes object None Any Optional Union Callable".split())


def _annotated(m: Machine, func: Func, arg: ast.arg) -> Value | None:
    from preflight.source.evaluate.expressions import evaluate

    annotation = arg.annotation
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        try:
            annotation = ast.parse(annotation.value, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
    if not isinstance(annotation, (ast.Name, ast.Attribute)):
        return None
    if isinstance(annotation, ast.Name) and annotation.id in _PLAIN:
        return None
    frame = m.frame
    from preflight.source.evaluate.frame import Frame

    m.frame = Frame(func.module, func.module.namespace)
    try:
        kind = settle(evaluate(m, annotation))
    finally:
        m.frame = frame
    if isinstance(kind, Ext) and not kind.name.startswith(
        ("builtins.", "typing.", "torch.Tensor", "torch.device", "torch.dtype")
    ):
        made = m.made("param", kind.name, arg)
        return made
    if isinstance(kind, Class) and kind is not func.owner:
        return _instance(m, kind)
    return None


def _instance(m: Machine, cls: Class) -> Obj:
    """An instance made from a constructor whose arguments are not known."""
    from preflight.source.evaluate.classes import instantiate

    for made in m.trace.by_name.get(cls.qualname, ()):
        if isinstance(made.result, Obj) and made.result.cls is cls:
            return made.result
    init = cls.lookup("__init__")
    args: list[Value] = []
    kwargs: dict[str, Value] = {}
    if isinstance(init, Func):
        spec = init.node.args
        args = [parameter(m, init, arg) for arg in [*spec.posonlyargs, *spec.args][1:]]
        kwargs = {arg.arg: parameter(m, init, arg) for arg in spec.kwonlyargs}
    outer = m.context
    m.context = Context(None, "root", cls.node, cls.module.script, cls)
    try:
        result = instantiate(m, cls, args, kwargs, cls.node)
    finally:
        m.context = outer
    return result if isinstance(result, Obj) else m.made("instance", cls.qualname, cls.node, cls=cls)


__all__ = ["Module", "follow_uncalled", "make_function"]
