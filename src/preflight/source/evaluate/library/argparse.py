"""Command lines by argparse: declared options become a namespace of their defaults, or of the given arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from preflight.errors import UsageError
from preflight.source.evaluate.library import Call, Model
from preflight.source.values import Choice, Dict, Ext, Known, Obj, Seq, Unknown, Value, join, plain, settle

if TYPE_CHECKING:
    from preflight.source.evaluate.machine import Machine

MODEL = Model()
_P = "argparse.ArgumentParser"


class Parser:
    """What was declared on a parser."""

    def __init__(self) -> None:
        """Start empty."""
        self.options: list[Option] = []
        self.defaults: dict[str, Value] = {}
        self.subparsers: dict[str, Parser] = {}
        self.subdest: str | None = None
        self.open = False


class Option:
    """One declared option."""

    __slots__ = ("action", "choices", "const", "default", "dest", "flags", "nargs", "node", "required", "type")

    def __init__(self, flags: list[str], dest: str, node: Any) -> None:
        self.flags = flags
        self.dest = dest
        self.node = node
        self.default: Value | None = None
        self.type: Value | None = None
        self.action = "store"
        self.const: Value | None = None
        self.nargs: Any = None
        self.choices: Any = None
        self.required = False

    @property
    def label(self) -> str:
        """How a person writes it."""
        return max(self.flags, key=len) if self.flags else self.dest


def new_parser(m: Machine, c: Call) -> Obj:
    """A parser, with what it inherits from ``parents``."""
    made = m.made("call", _P, c.node, c.args, c.kwargs)
    made.data = Parser()
    parents = settle(c.kwargs["parents"]) if "parents" in c.kwargs else None
    for parent in parents.items if isinstance(parents, Seq) else []:
        inner = settle(parent)
        if isinstance(inner, Obj) and isinstance(inner.data, Parser):
            made.data.options.extend(inner.data.options)
            made.data.defaults.update(inner.data.defaults)
    m.parsers.append(made)
    return made


@MODEL.call(
    "argparse.ArgumentParser",
    "configargparse.ArgumentParser",
    "configargparse.ArgParser",
    "jsonargparse.ArgumentParser",
)
def _parser(m: Machine, c: Call) -> Value | None:
    return new_parser(m, c)


def parser_of(value: Value | None) -> Parser | None:
    """The declarations of a parser, of a group, or of an instance of a class derived from a parser."""
    base = settle(value) if value is not None else None
    if isinstance(base, Choice):
        base = next((o for o in base.options if isinstance(o, Obj)), base)
    if isinstance(base, Obj):
        if (
            base.data is None
            and base.cls is not None
            and any(n.endswith("ArgumentParser") for n in base.cls.external_bases())
        ):
            base.data = Parser()
        if isinstance(base.data, Parser):
            return base.data
    return None


@MODEL.call(_P + ".add_argument_group", _P + ".add_mutually_exclusive_group")
def _group(m: Machine, c: Call) -> Value | None:
    return c.receiver if parser_of(c.receiver) else None


@MODEL.call(_P + ".add_argument")
def _add_argument(m: Machine, c: Call) -> Value | None:
    parser = parser_of(c.receiver)
    if parser is None:
        return None
    flags = [v.value for v in map(settle, c.args) if isinstance(v, Known) and isinstance(v.value, str)]
    if len(flags) != len(c.args) or not (flags or "dest" in c.kwargs):
        parser.open = True
        return m.known(None)
    dest = plain(c.kwargs.get("dest"))
    long = next((f for f in flags if f.startswith("--")), flags[0] if flags else str(dest))
    option = Option(
        [f for f in flags if f.startswith("-")],
        dest if isinstance(dest, str) else long.lstrip("-").replace("-", "_"),
        c.node,
    )
    option.default = c.kwargs.get("default")
    option.type = c.kwargs.get("type")
    option.const = c.kwargs.get("const")
    option.nargs = plain(c.kwargs.get("nargs"))
    option.choices = plain(c.kwargs.get("choices"))
    option.required = bool(plain(c.kwargs.get("required"), False))
    action = settle(c.kwargs["action"]) if "action" in c.kwargs else None
    if isinstance(action, Known):
        option.action = str(action.value)
    elif isinstance(action, Ext):
        option.action = action.name
    elif action is not None:
        option.action = "custom"
    parser.options = [o for o in parser.options if o.dest != option.dest or not (set(o.flags) & set(option.flags))]
    parser.options.append(option)
    return m.known(None)


@MODEL.call(_P + ".set_defaults")
def _set_defaults(m: Machine, c: Call) -> Value | None:
    parser = parser_of(c.receiver)
    if parser is not None:
        parser.defaults.update(c.kwargs)
    return m.known(None)


@MODEL.call(_P + ".get_default")
def _get_default(m: Machine, c: Call) -> Value | None:
    parser, name = parser_of(c.receiver), plain(c.argument(0, "dest"))
    for option in parser.options if parser else []:
        if option.dest == name and parser is not None:
            return default_of(m, parser, option)
    return None


@MODEL.call(_P + ".add_subparsers")
def _add_subparsers(m: Machine, c: Call) -> Value | None:
    parser = parser_of(c.receiver)
    if parser is None:
        return None
    dest = plain(c.kwargs.get("dest"))
    parser.subdest = dest if isinstance(dest, str) else None
    made = m.made("call", "argparse._SubParsersAction", c.node, c.args, c.kwargs, c.receiver)
    made.data = parser
    return made


@MODEL.call("argparse._SubParsersAction.add_parser")
def _add_parser(m: Machine, c: Call) -> Value | None:
    parser, name = parser_of(c.receiver), plain(c.argument(0, "name"))
    inner = new_parser(m, c)
    if parser is not None and isinstance(name, str):
        parser.subparsers[name] = inner.data
    return inner


def default_of(m: Machine, parser: Parser, option: Option) -> Value:
    """What an option holds when it is not given."""
    how = f"default of {option.label}"
    source = (m.made("item", "argparse.option", option.node, [Known(option.dest)]),)
    given = parser.defaults.get(option.dest, option.default)
    site = m.site(option.node)
    if given is None:
        if option.action in ("store_true", "store_false"):
            return Known(option.action == "store_false", site, how, True, source)
        if option.action == "count" or not (option.flags or option.nargs in ("?", "*")):
            reason = f"{option.label} has no default" if option.action != "count" else ""
            return (
                Known(None, site, how, True, source)
                if option.action == "count"
                else Unknown(reason, site, source, name=option.dest)
            )
        if not option.flags and option.nargs == "*":
            return Seq([], "list", site)
        if option.required:
            return Unknown(f"{option.label} is required and was not given", site, source, name=option.dest)
        return Known(None, site, how, True, source)
    return _soften(convert(m, option, given), site, how, source)


def _soften(value: Value, site: Any, how: str, source: tuple[Value, ...]) -> Value:
    settled = settle(value)
    if isinstance(settled, Known):
        return Known(settled.value, settled.site or site, how, True, (*source, settled))
    if isinstance(settled, Seq) and not settled.open and len(settled.items) < 64:
        return Seq([_soften(i, site, how, source) for i in settled.items], settled.kind, site)
    return value


def convert(m: Machine, option: Option, value: Value) -> Value:
    """Apply an option's ``type`` to a default that is text, as argparse does."""
    settled = settle(value)
    if option.type is None or not isinstance(settled, Known) or not isinstance(settled.value, str):
        return value
    return converted(m, option.type, settled, option.node)


def converted(m: Machine, kind: Value, text: Known, node: Any) -> Value:
    """Apply a conversion function to text."""
    from preflight.source.evaluate.calls import call

    result = call(m, kind, [text], {}, node)
    return (
        result
        if isinstance(settle(result), (Known, Seq, Dict))
        else m.unknown(f"{text.value!r} converted by a function", node, text)
    )


@MODEL.call(_P + ".parse_args", _P + ".parse_known_args", _P + ".parse_intermixed_args")
def _parse_args(m: Machine, c: Call) -> Value | None:
    parser = parser_of(c.receiver)
    if parser is None:
        return None
    words = c.argument(0, "args")
    given = settle(words) if words is not None else None
    line, partial = m.arguments, c.name.endswith("parse_known_args")
    if isinstance(given, Seq) and given.kind == "argv":
        partial = True  # what another parser left over: options of that one are not options of this one
    elif isinstance(given, Seq):
        fixed = plain(given)
        line = tuple(map(str, fixed)) if isinstance(fixed, list) else line
    try:
        namespace = namespace_of(m, parser, c.node, line, partial)
    except UsageError:
        if line is m.arguments:
            raise
        namespace = namespace_of(m, parser, c.node, None)  # a fixed line that the script itself gets wrong
    if c.name.endswith("parse_known_args"):
        return Seq([namespace, Seq([], "argv", m.site(c.node), True)], "tuple", m.site(c.node))
    return namespace


def namespace_of(m: Machine, parser: Parser, node: Any, line: tuple[str, ...] | None, partial: bool = False) -> Obj:
    """The namespace that parsing gives.

    Raises:
        UsageError: The given command line does not fit the script's options.
    """
    namespace = m.made("call", "argparse.Namespace", node)
    namespace.data = "namespace"
    namespace.open_args = parser.open
    for option in parser.options:
        if option.action not in ("help", "version"):
            # Two flags for one name: the first declared default holds, and as text that both have is read by each type in turn.
            before = namespace.attrs.get(option.dest)
            if before is None or _is_text_of(before, option.default):
                namespace.attrs[option.dest] = default_of(m, parser, option)
    for name, value in parser.defaults.items():
        namespace.attrs.setdefault(name, value)
    if parser.subdest:
        namespace.attrs[parser.subdest] = Unknown("the sub-command is not given", m.site(node))
    if line is None:
        for inner in parser.subparsers.values():
            _merge_subparser(m, namespace, inner, node)
        return namespace
    from preflight.source.evaluate.command_line.parsed import parse_line

    parse_line(m, parser, namespace, list(line), partial, UsageError)
    return namespace


def _is_text_of(value: Value, default: Value | None) -> bool:
    """Whether a value is the very text that an option has as its default: argparse has not converted it yet."""
    held, text = settle(value), settle(default) if default is not None else None
    return (
        isinstance(held, Known) and isinstance(text, Known) and isinstance(text.value, str) and held.value == text.value
    )


def _merge_subparser(m: Machine, namespace: Obj, inner: Parser, node: Any) -> None:
    for name, value in namespace_of(m, inner, node, None).attrs.items():
        before = namespace.attrs.get(name)
        namespace.attrs[name] = value if before is None else join(before, value)


@MODEL.call("argparse.Namespace", "types.SimpleNamespace")
def _namespace(m: Machine, c: Call) -> Value | None:
    made = m.made("call", "argparse.Namespace", c.node)
    made.attrs.update(c.kwargs)
    made.open_args = c.open
    made.data = "namespace"
    return made


@MODEL.call(_P + ".add_arguments")
def _add_dataclass(m: Machine, c: Call) -> Value | None:
    """simple-parsing extends parsers by this method."""
    from preflight.source.evaluate.library.simple_parsing import add_arguments

    return add_arguments(m, c)
