"""Built-in functions that ask objects for their attributes and kinds, and change them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from preflight.source.evaluate.builtin.model import MODEL
from preflight.source.evaluate.library import Call
from preflight.source.evaluate.overwritten import overwrite, read_from_file
from preflight.source.values import (
    Class,
    Dict,
    Ext,
    Known,
    Module,
    Obj,
    Seq,
    Unknown,
    Value,
    settle,
)

if TYPE_CHECKING:
    from preflight.source.evaluate.machine import Machine


@MODEL.call("builtins.vars")
def _vars(m: Machine, c: Call) -> Value | None:
    base = settle(c.args[0]) if c.args else None
    if isinstance(base, Obj):
        return Dict(base.attrs, m.site(c.node), name="vars")
    return None


@MODEL.call("builtins.globals", "builtins.locals")
def _scope(m: Machine, c: Call) -> Value | None:
    inner = c.name.endswith("locals")
    return Dict(m.frame.locals if inner else m.frame.module.namespace, m.site(c.node), name="scope")


@MODEL.call("builtins.getattr", "builtins.hasattr")
def _getattr(m: Machine, c: Call) -> Value | None:
    from preflight.source.evaluate.attributes import attribute

    name = settle(c.args[1]) if len(c.args) > 1 else None
    if not isinstance(name, Known) or not isinstance(name.value, str):
        return m.unknown("an attribute whose name is not known", c.node, *c.args)
    base = settle(c.args[0])
    found = _has(base, name.value)
    if found is None and isinstance(base, Obj) and c.name.endswith("hasattr"):
        found = _module_has(m, base, name.value)
    if c.name.endswith("hasattr"):
        return m.known(found, c.node) if found is not None else None
    if found is False and len(c.args) > 2:
        return c.args[2]
    if found is None and len(c.args) > 2 and isinstance(base, Unknown):
        return m.unknown(base.reason, c.node, *c.args)
    return attribute(m, c.args[0], name.value, c.node)


_OF_MODULES = frozenset(
    "T_destination add_module apply bfloat16 buffers call_super_init children compile cpu cuda double dump_patches eval "
    "extra_repr float forward get_buffer get_extra_state get_parameter get_submodule half ipu load_state_dict modules mtia "
    "named_buffers named_children named_modules named_parameters parameters register_backward_hook register_buffer "
    "register_forward_hook register_forward_pre_hook register_full_backward_hook register_full_backward_pre_hook "
    "register_load_state_dict_post_hook register_load_state_dict_pre_hook register_module register_parameter "
    "register_state_dict_post_hook register_state_dict_pre_hook requires_grad_ set_extra_state set_submodule share_memory "
    "state_dict to to_empty train training type xpu zero_grad".split()
)
"""What every ``torch.nn.Module`` has, beside names that begin with an underscore."""


def _module_has(m: Machine, base: Obj, name: str) -> bool | None:
    """Whether a module of the project has an attribute: one that nothing gave it has not, unless names were set from outside."""
    bases = base.cls.external_bases() if base.cls is not None else []
    if bases != ["torch.nn.Module"] or name.startswith("_") or name in _OF_MODULES or base.open_args:
        return None
    if base.cls is not None and base.cls.lookup("__getattr__") is not None:
        return None
    named = m.trace.calls(
        "builtins.setattr", ".add_module", ".register_module", ".register_buffer", ".register_parameter"
    )
    for event in named:
        at = 1 if event.name == "builtins.setattr" else 0
        given = settle(event.args[at]) if len(event.args) > at else None
        if not isinstance(given, Known) or given.value == name:
            return None
    return False


def _has(base: Value, name: str) -> bool | None:
    if isinstance(base, Obj):
        if name in base.attrs or (base.cls is not None and base.cls.lookup(name) is not None):
            return True
        if base.name == "argparse.Namespace" and not base.open_args:
            return False
        plain_class = base.cls is not None and not base.cls.external_bases() and base.cls.lookup("__getattr__") is None
        return False if plain_class and not base.open_args else None
    if isinstance(base, Class):
        return True if base.lookup(name) is not None else None
    if isinstance(base, Dict) and base.name in {"namespace", "config"}:
        return name in base.entries if not base.open else (True if name in base.entries else None)
    if isinstance(base, Module):
        return name in base.namespace
    if isinstance(base, Known):
        return hasattr(base.value, name)
    return None


@MODEL.call("builtins.setattr")
def _setattr(m: Machine, c: Call) -> Value | None:
    from preflight.source.evaluate.assign import set_attribute

    name = settle(c.args[1]) if len(c.args) > 2 else None
    if isinstance(name, Known) and isinstance(name.value, str):
        set_attribute(m, c.args[0], name.value, c.args[2], c.node)
    elif name is not None and not isinstance(settle(c.args[2]), Known):
        _any_may_change(m, c.args[0], c.args[2], c.node)
    return m.known(None)


def _any_may_change(m: Machine, target: Value, value: Value, node: ast.AST) -> None:
    """A name from outside is set (``for k, v in kwargs.items(): setattr(config, k, v)``): what is there are defaults."""
    base = settle(target)
    if isinstance(base, Obj) and base.kind == "instance":
        if read_from_file(value):
            overwrite(m, base.attrs, node)
            return
        for name, value in list(base.attrs.items()):
            if isinstance(value, Known) and not value.soft:
                m.write(base.attrs, name, Known(value.value, value.site, value.how, True))


@MODEL.call("builtins.isinstance", "builtins.issubclass")
def _isinstance(m: Machine, c: Call) -> Value | None:
    if len(c.args) != 2:
        return None
    if c.name.endswith("issubclass"):
        child, parent = settle(c.args[0]), settle(c.args[1])
        return (
            m.known(parent in child.lineage, c.node) if isinstance(child, Class) and isinstance(parent, Class) else None
        )
    base, kinds = settle(c.args[0]), settle(c.args[1])
    wanted = kinds.items if isinstance(kinds, Seq) else [kinds]
    verdicts = [_is(base, settle(kind)) for kind in wanted]
    if any(v is True for v in verdicts):
        return Known(True, m.site(c.node), "computed", bool(getattr(base, "soft", False)))
    if all(v is False for v in verdicts):
        return Known(False, m.site(c.node), "computed", bool(getattr(base, "soft", False)))
    return None


def _is(base: Value, kind: Value) -> bool | None:
    if isinstance(kind, Ext) and kind.name.startswith("builtins."):
        name = kind.name.partition(".")[2]
        if isinstance(base, Known):
            builtin = getattr(__import__("builtins"), name, None)
            return isinstance(base.value, builtin) if isinstance(builtin, type) else None
        if isinstance(base, Seq):
            return base.kind == name
        if isinstance(base, Dict):
            return name == "dict"
        return False if isinstance(base, Obj) and base.kind == "instance" else None
    if isinstance(base, (Known, Seq, Dict)):
        return False if isinstance(kind, (Ext, Class)) else None
    if isinstance(base, Obj) and base.cls is not None:
        if isinstance(kind, Class):
            return kind in base.cls.lineage
        if isinstance(kind, Ext):
            return (
                True if kind.name in base.cls.external_bases() else (False if not base.cls.external_bases() else None)
            )
    if isinstance(base, Obj) and isinstance(kind, Ext) and base.kind == "call" and base.name == kind.name:
        return True
    return None


@MODEL.call("builtins.type")
def _type(m: Machine, c: Call) -> Value | None:
    base = settle(c.args[0]) if len(c.args) == 1 else None
    if isinstance(base, Obj) and base.cls is not None:
        return base.cls
    if isinstance(base, Known):
        return Ext("builtins." + type(base.value).__name__)
    return None


@MODEL.attribute("builtins.super.__init__")
def _nothing(m: Machine, base: Value, name: str, node: ast.AST, key: Value | None) -> Value | None:
    return None
