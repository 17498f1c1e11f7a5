"""A script's own command line, given by the person: parsed by the real argparse over the declared options."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from preflight.source.values import Dict, Known, Obj, Seq, Value, plain, settle

if TYPE_CHECKING:
    from preflight.source.evaluate.library.argparse import Option, Parser
    from preflight.source.evaluate.machine import Machine


def parse_line(m: Machine, parser: Parser, namespace: Obj, line: list[str], partial: bool, error_type: Any) -> None:
    """Overwrite the defaults in ``namespace`` with what the command line gives.

    Raises:
        UsageError: The line does not fit, with argparse's own words.
    """
    import argparse as real

    class Strict(real.ArgumentParser):
        def error(self, message: str) -> Any:
            raise error_type(f"the script's own command line: {message}", "arguments after -- are given to the script")

    def build(source: Parser, target: real.ArgumentParser) -> dict[str, Option]:
        known: dict[str, Option] = {}
        for option in source.options:
            if option.action in ("help", "version") or (not option.flags and not option.dest):
                continue
            keywords: dict[str, Any] = {"default": real.SUPPRESS}
            action = option.action.rpartition(".")[2]
            if action == "BooleanOptionalAction":
                keywords["action"] = real.BooleanOptionalAction
            elif action in ("store_true", "store_false", "store_const", "append_const", "count"):
                keywords["action"] = action
                before = plain(namespace.attrs.get(option.dest))
                if action == "count" and isinstance(before, (int, float)):
                    keywords["default"] = before  # counting goes on from the default
                if action in ("store_const", "append_const"):
                    keywords["const"] = ("<const>", option.dest)
            else:
                keywords["type"] = partial_word(option)
                if action in ("append", "extend"):
                    keywords["action"] = action
                if option.nargs is not None:
                    keywords["nargs"] = option.nargs
                    if option.nargs == "?":
                        keywords["const"] = "<const>"
            names = option.flags or [option.dest]
            if option.flags:
                keywords["dest"] = option.dest
            try:
                target.add_argument(*names, **keywords)
            except (real.ArgumentError, TypeError, ValueError):
                continue
            known[option.dest] = option
        if source.subparsers:
            inner = target.add_subparsers(dest="<command>")
            for name, child in source.subparsers.items():
                known.update(build(child, inner.add_parser(name, add_help=False)))
        return known

    strict = Strict(add_help=False, allow_abbrev=True)
    known = build(parser, strict)
    if partial or parser.open:
        given, _ = strict.parse_known_args(line)
    else:
        given = strict.parse_args(line)
    for dest, raw in vars(given).items():
        if dest == "<command>":
            if raw is not None and parser.subdest:
                namespace.attrs[parser.subdest] = Known(raw, None, "command line")
            continue
        option = known.get(dest)
        if option is not None and not (option.action == "count" and raw == plain(namespace.attrs.get(dest))):
            value = _value(m, option, raw, error_type)
            namespace.attrs[dest] = _behind_default(m, option, namespace.attrs.get(dest), value)


def _behind_default(m: Machine, option: Option, default: Value | None, given: Value) -> Value:
    """What ``append`` and ``extend`` make of a default that is a list: it stays in front of what is given."""
    before = settle(default) if default is not None else None
    if option.action not in ("append", "extend", "append_const") or not isinstance(given, Seq):
        return given
    if isinstance(before, Known) and before.value is None or before is None:
        return given
    front = before if isinstance(before, Seq) else None
    return Seq(
        [*(front.items if front else ()), *given.items], "list", m.site(option.node), front is None or front.open
    )


class Word(str):
    """A word of the command line that knows which option took it: several may write to one name."""

    option: Option


def partial_word(option: Option) -> Callable[[str], str]:
    """A conversion for argparse that only marks what it is given; argparse's own placeholders stay as they are."""

    def convert(text: str) -> str:
        if text in ("<const>", "==SUPPRESS=="):
            return text
        word = Word(text)
        word.option = option
        return word

    return convert


def _value(m: Machine, option: Option, raw: Any, error_type: Any) -> Value:
    if isinstance(raw, Word):
        option, raw = raw.option, str(raw)
    how = f"command line {option.label}"
    if isinstance(raw, (list, tuple)) and not (isinstance(raw, tuple) and raw[:1] == ("<const>",)):
        return Seq([_value(m, option, item, error_type) for item in raw], "list", m.site(option.node))
    if raw == "<const>" or (isinstance(raw, tuple) and raw[:1] == ("<const>",)):
        return option.const if option.const is not None else Known(None, None, how)
    if isinstance(raw, str) and option.type is not None:
        from preflight.source.evaluate.library.argparse import converted

        value = converted(m, option.type, Known(raw, m.site(option.node), how), option.node)
        settled = settle(value)
        if isinstance(settled, Known):
            raw = settled.value
        elif isinstance(settled, (Seq, Dict)):
            return value
        elif getattr(settled, "reason", "").startswith("cannot be computed"):
            raise error_type(f"the script's own command line: argument {option.label}: invalid value: {raw!r}")
        else:
            return value
    if option.choices and isinstance(option.choices, (list, tuple)) and raw not in option.choices:
        raise error_type(
            f"the script's own command line: argument {option.label}: invalid choice: {raw!r} "
            f"(choose from {', '.join(map(str, option.choices))})"
        )
    return Known(raw, m.site(option.node), how)
