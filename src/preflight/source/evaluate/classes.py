"""Classes of the project: definition, instances, dataclasses, ``super()``."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from preflight.source.evaluate.calls import call
from preflight.source.evaluate.drawings import class_of
from preflight.source.evaluate.expressions import evaluate
from preflight.source.evaluate.frame import Frame
from preflight.source.evaluate.functions import call_function, decorate, define_function
from preflight.source.values import Bound, Class, Ext, Func, Known, Method, Obj, Partial, Seq, Unknown, Value, settle

if TYPE_CHECKING:
    from preflight.source.evaluate.machine import Machine

_DATACLASS = frozenset(
    "dataclasses.dataclass attr.s attr.attrs attrs.define attrs.frozen attr.dataclass attr.define pydantic.dataclasses.dataclass "
    "simple_parsing.dataclass flax.struct.dataclass chz.chz transformers.utils.dataclass".split()
)
_DATA_BASES = frozenset(
    "pydantic.BaseModel pydantic_settings.BaseSettings typing.NamedTuple msgspec.Struct simple_parsing.Serializable".split()
)
_CONVERTING = frozenset({"pydantic.BaseModel", "pydantic_settings.BaseSettings"})
_NUMBERS: dict[str, type[float] | type[int]] = {
    **dict.fromkeys(("float", "PositiveFloat", "NonNegativeFloat", "FiniteFloat", "confloat"), float),
    **dict.fromkeys(("int", "PositiveInt", "NonNegativeInt", "conint"), int),
}
# Kinds that text is taken for as it is, or in which numbers are only parts.
_TEXTS = frozenset(
    "str Any Literal StrictFloat StrictInt list List tuple Tuple dict Dict set Set Sequence Mapping".split()
)
_ENUMS = frozenset("enum.Enum enum.IntEnum enum.StrEnum enum.Flag enum.IntFlag transformers.utils.ExplicitEnum".split())


def define_class(m: Machine, node: ast.ClassDef) -> None:
    """Bind a class definition; its body is followed in a scope of its own."""
    from preflight.source.evaluate.statements import run_block

    bases = [class_of(m, settle(evaluate(m, base))) for base in node.bases if not isinstance(base, ast.Starred)]
    m.tick(sum(len(base.lineage) for base in bases if isinstance(base, Class)))
    cls = Class(node, m.frame.module, node.name, bases, m.site(node))
    cls.keywords = {k.arg: evaluate(m, k.value) for k in node.keywords if k.arg}
    outer = m.frame
    closure = outer if outer.func is not None else None
    frame = Frame(outer.module, cls.namespace, closure)
    frame.owner = cls
    m.frame = frame
    context = m.context
    try:
        for statement in node.body:
            if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
                m.tick()
                define_function(m, statement, cls)
            elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                if statement.value is not None:
                    cls.namespace[statement.target.id] = evaluate(m, statement.value)
            else:
                run_block(m, [statement])
    finally:
        m.frame, m.context = outer, context
    value: Value = cls
    decorators = [(settle(evaluate(m, expression)), expression) for expression in node.decorator_list]
    for decorator, expression in reversed(decorators):
        cls.decorators.append(decorator)
        if isinstance(decorator, (Func, Bound, Class, Partial)):  # of a library, they matter by their names alone
            value = decorate(m, decorator, value, expression)
    m.bind(node.name, value)


def is_dataclass(cls: Class) -> bool:
    """Whether the fields of a class are what its constructor takes."""
    for part in cls.lineage:
        if any(getattr(d, "name", "") in _DATACLASS for d in part.decorators):
            return True
    return any(name in _DATA_BASES or name in _RECORD_BASES for name in cls.external_bases())


def constructor_made(cls: Class) -> bool:
    """Whether the first constructor along the lineage is one that a decorator makes, not one that is written."""
    for part in cls.lineage:
        if "__init__" in part.namespace:
            return False
        for decorator in part.decorators:
            if getattr(decorator, "name", "") in _DATACLASS:
                given = decorator.kwargs.get("init") if isinstance(decorator, Obj) else None
                return not (isinstance(given, Known) and given.value is False)
    return False


_RECORD_BASES = frozenset(
    {"transformers.TrainingArguments", "transformers.Seq2SeqTrainingArguments", "trl.SFTConfig", "trl.DPOConfig"}
)


def fields(cls: Class) -> list[tuple[str, ast.AnnAssign, Class]]:
    """The annotated fields of a dataclass, those of its bases first."""
    found: dict[str, tuple[str, ast.AnnAssign, Class]] = {}
    for part in reversed(cls.lineage):
        for statement in part.node.body:
            if (
                isinstance(statement, ast.AnnAssign)
                and isinstance(statement.target, ast.Name)
                and "ClassVar" not in ast.dump(statement.annotation)
            ):
                found[statement.target.id] = (statement.target.id, statement, part)
    return list(found.values())


def instantiate(
    m: Machine, cls: Class, args: list[Value], kwargs: dict[str, Value], node: ast.AST, open_: bool = False
) -> Value:
    """An instance of a class of the project: its constructor is followed."""
    externals = cls.external_bases()
    if any(name in _ENUMS for name in externals) and args:
        return args[0]
    name = externals[0] if externals else cls.qualname
    obj = m.made("instance", name, node, args, kwargs, cls=cls)
    obj.open_args = open_
    event = m.event(cls.qualname, node, cls, None, args, kwargs)
    event.result = obj
    event.inlined = True
    m.trace.results[id(obj)] = event
    init = None if constructor_made(cls) else cls.lookup("__init__")
    if isinstance(init, Func):
        if m.call_stack.count(init) < 3:
            call_function(m, init, [obj, *args], kwargs, node, open_)
    elif is_dataclass(cls):
        _fill(m, cls, obj, args, kwargs, node, open_)
        post = cls.lookup("__post_init__")
        if isinstance(post, Func):
            call_function(m, post, [obj], {}, node)
    elif kwargs and (not externals or externals[0] in _RECORD_BASES):
        obj.attrs.update(kwargs)
    return obj


def _fill(
    m: Machine, cls: Class, obj: Obj, args: list[Value], kwargs: dict[str, Value], node: ast.AST, open_: bool
) -> None:
    converts = not _CONVERTING.isdisjoint(cls.external_bases())
    for index, (name, statement, owner) in enumerate(fields(cls)):
        if name in kwargs or index < len(args):
            given = kwargs[name] if name in kwargs else args[index]
            obj.attrs[name] = _converted(given, statement.annotation) if converts else given
        else:
            obj.attrs[name] = field_default(m, cls, owner, name, statement)
            if open_:
                obj.attrs[name] = Unknown(f"field {name} may be given by arguments that are not known", m.site(node))
    for name, value in kwargs.items():
        obj.attrs.setdefault(name, value)


def _converted(value: Value, annotation: ast.expr) -> Value:
    """The value of a field of pydantic: text is read as the number that the field is declared to be."""
    worth, kind = settle(value), _number_of(annotation)
    if kind is None or not isinstance(worth, Known) or not isinstance(worth.value, str):
        return value
    try:
        return Known(kind(worth.value), worth.site, worth.how, worth.soft)
    except ValueError:
        return value  # pydantic refuses it


def _number_of(annotation: ast.expr) -> type[float] | type[int] | None:
    """The number that a field of pydantic is declared as: by its name, a constrained one's, or as one of text or nothing."""
    words = {re.sub(r"^.*\.", "", word) for word in re.split(r"[^\w.]+", ast.unparse(annotation))}
    if words & _TEXTS:
        return None  # text stays text
    return next((kind for name, kind in _NUMBERS.items() if name in words), None)


def field_default(m: Machine, cls: Class, owner: Class, name: str, statement: ast.AnnAssign) -> Value:
    """The default of a dataclass field: soft, because whoever makes the instance can change it."""
    value = cls.namespace.get(name) or owner.namespace.get(name)
    settled = settle(value) if value is not None else None
    if settled is None:
        return Unknown(f"field {name} of {cls.qualname} has no default", m.site(statement), name=name)
    if isinstance(settled, Obj) and settled.name.rpartition(".")[2] in {
        "field",
        "Field",
        "ib",
        "attrib",
        "choice",
        "Option",
        "Argument",
    }:
        return _field_call(m, settled, name, cls, statement)
    if isinstance(settled, Known):
        return Known(settled.value, settled.site, f"default of {cls.qualname}.{name}", settled.soft)
    return settled


def _field_call(m: Machine, made: Obj, name: str, cls: Class, statement: ast.AnnAssign) -> Value:
    default = made.kwargs.get("default")
    if default is None and made.args and not made.name.startswith("dataclasses."):
        default = made.args[0]
    if default is not None:
        settled = settle(default)
        if isinstance(settled, Known) and settled.value is not Ellipsis:
            return Known(settled.value, settled.site, f"default of {cls.qualname}.{name}", settled.soft)
        return default
    factory = made.kwargs.get("default_factory") or made.kwargs.get("factory")
    if factory is not None:
        return call(m, factory, [], {}, statement)
    return Unknown(f"field {name} of {cls.qualname} has no default", m.site(statement), name=name)


def super_of(m: Machine, args: list[Value], node: ast.AST) -> Value:
    """``super()``: the next class of the lineage that has the method; outside the project, the library's."""
    owner = settle(args[0]) if args else m.frame.owner
    self_value = settle(args[1]) if len(args) > 1 else m.frame.self_value
    frame = m.frame
    while owner is None and frame.closure is not None:
        frame = frame.closure
        owner, self_value = frame.owner, frame.self_value
    if not isinstance(owner, Class) or self_value is None:
        return m.unknown("super() outside of a class", node)
    proxy = m.made("call", "builtins.super", node, receiver=self_value)
    proxy.data = owner
    return proxy


def super_attribute(m: Machine, proxy: Obj, name: str, node: ast.AST) -> Value:
    """An attribute of ``super()``."""
    owner, self_value = proxy.data, proxy.receiver
    lineage = self_value.cls.lineage if isinstance(self_value, Obj) and self_value.cls is not None else owner.lineage
    after = lineage[lineage.index(owner) + 1 :] if owner in lineage else owner.lineage[1:]
    for cls in after:
        if name == "__init__" and _library_comes_first(owner, cls):
            break
        found = cls.namespace.get(name)
        if isinstance(found, Func) and self_value is not None:
            return Bound(found, self_value, m.site(node))
        if found is not None:
            return found
    assert self_value is not None
    return Method(self_value, "super." + name, m.site(node))


def _library_comes_first(owner: Class, cls: Class) -> bool:
    """Whether Python asks a module of PyTorch before an ancestor: ``class Net(nn.Module, Mixin)``, not of a module itself.

    ``nn.Module.__init__`` calls nobody further (``call_super_init`` is off), so that the ancestor's own is not reached.
    """
    for base in owner.bases:
        if isinstance(base, Class) and cls in base.lineage:
            return False
        if isinstance(base, Ext) and base.name.startswith(("torch.nn.", "lightning.pytorch.LightningModule")):
            return base.name not in cls.external_bases()
    return False


__all__ = ["Ext", "Seq", "define_class", "instantiate"]
