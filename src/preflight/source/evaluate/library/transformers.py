"""Hugging Face transformers: argument parsing by dataclasses, training arguments, trainers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from preflight.source.evaluate.command_line.words import word_value, words_of
from preflight.source.evaluate.library import Call, Model
from preflight.source.values import Class, Ext, Known, Obj, Seq, Value, settle

if TYPE_CHECKING:
    from preflight.source.evaluate.machine import Machine

MODEL = Model()
_P = "transformers.HfArgumentParser"


def records(m: Machine, c: Call) -> list[Value]:
    """An instance of each dataclass that the parser was given, with defaults or the command line's values."""
    from preflight.source.evaluate.classes import instantiate

    parser = settle(c.receiver) if c.receiver is not None else None
    if not isinstance(parser, Obj):
        return []
    kinds = settle(parser.argument(0, "dataclass_types") or Known(None))
    given = {name: word_value(name, text) for name, text in words_of(m)[0].items()}
    result: list[Value] = []
    for kind in kinds.items if isinstance(kinds, Seq) else [kinds]:
        target = settle(kind)
        if isinstance(target, Class):
            made = instantiate(m, target, [], {}, c.node)
        elif isinstance(target, Ext):
            made = m.made("call", target.name, c.node)
            event = m.event(target.name, c.node, target, None, [], {})
            event.result = made
        else:
            made = m.unknown("a record of arguments whose class is not known", c.node)
        if isinstance(made, Obj):
            soften(made)
            for name, value in given.items():
                if (
                    name in made.attrs
                    or isinstance(target, Ext)
                    or (isinstance(target, Class) and target.external_bases())
                ):
                    made.attrs[name] = value
                    made.kwargs[name] = value
        result.append(made)
    return result


def soften(made: Obj) -> None:
    """Mark the values of a record as ones that the command line can change."""
    for name, value in list(made.attrs.items()):
        settled = settle(value)
        if isinstance(settled, Known):
            made.attrs[name] = Known(settled.value, settled.site, f"default of --{name}", True)


@MODEL.call(
    _P + ".parse_args_into_dataclasses",
    _P + ".parse_json_file",
    _P + ".parse_yaml_file",
    _P + ".parse_dict",
    "trl.TrlParser.parse_args_and_config",
    "trl.TrlParser.parse_args_into_dataclasses",
)
def _parse(m: Machine, c: Call) -> Value | None:
    found = records(m, c)
    extra: list[Value] = [Seq([], "list", m.site(c.node))] if "return_remaining_strings" in c.kwargs else []
    return Seq(found + extra, "tuple", m.site(c.node)) if found else None
