"""What each instruction of a pickle does to the stack: plain values are made, what would look up a name is refused."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from preflight.source.dumps.pickle_stack import CutError, Machine, RefusedError, fill


def _constant(value: Any) -> Callable[[Machine], None]:
    return lambda machine: machine.top.append(value)


def _number(form: str, size: int) -> Callable[[Machine], None]:
    unpack = struct.Struct(form).unpack
    return lambda machine: machine.top.append(unpack(machine.take(size))[0])


def _text(width: int) -> Callable[[Machine], None]:
    def read(machine: Machine) -> None:
        size = int.from_bytes(machine.take(width), "little")
        machine.top.append(machine.take(size).decode("utf-8", "replace"))

    return read


def _raw(width: int) -> Callable[[Machine], None]:
    return lambda machine: machine.top.append(machine.take(int.from_bytes(machine.take(width), "little")))


def _long(width: int) -> Callable[[Machine], None]:
    def read(machine: Machine) -> None:
        size = int.from_bytes(machine.take(width), "little")
        # A number of more than 1,024 bytes is no measurement, and printing it would take for ever.
        if size > 1024:
            raise CutError(f"a number of {size} bytes")
        machine.top.append(int.from_bytes(machine.take(size), "little", signed=True))

    return read


def _put(width: int) -> Callable[[Machine], None]:
    def read(machine: Machine) -> None:
        machine.memo[int.from_bytes(machine.take(width), "little")] = machine.top[-1]

    return read


def _get(width: int) -> Callable[[Machine], None]:
    return lambda machine: machine.top.append(machine.memo[int.from_bytes(machine.take(width), "little")])


def _last(count: int) -> Callable[[Machine], None]:
    def read(machine: Machine) -> None:
        top = machine.top
        values = tuple(top[-count:])
        if len(values) < count:
            raise CutError("too few values for a tuple")
        del top[-count:]
        top.append(values)

    return read


def _skip(size: int) -> Callable[[Machine], None]:
    def read(machine: Machine) -> None:
        machine.take(size)

    return read


def _mark(machine: Machine) -> None:
    machine.segments.append(machine.top)
    machine.top = []


def _closed(kind: Callable[[list[Any]], Any]) -> Callable[[Machine], None]:
    def read(machine: Machine) -> None:
        values = machine.close()  # which brings back the segment below
        machine.top.append(kind(values))

    return read


def _as_dict(values: list[Any]) -> dict[Any, Any]:
    made: dict[Any, Any] = {}
    fill(made, values)
    return made


def _list_of(machine: Machine) -> list[Any]:
    holder = machine.top[-1]
    if not isinstance(holder, list):
        raise CutError("values for a list that is none")
    return holder


def _append(machine: Machine) -> None:
    value = machine.top.pop()
    _list_of(machine).append(value)


def _appends(machine: Machine) -> None:
    values = machine.close()
    _list_of(machine).extend(values)


def _set(machine: Machine) -> None:
    value, key = machine.top.pop(), machine.top.pop()
    fill(machine.top[-1], [key, value])


def _sets(machine: Machine) -> None:
    values = machine.close()
    fill(machine.top[-1], values)


def _integer(machine: Machine) -> None:
    word = machine.line().rstrip(b"L")
    if len(word) > 1024:
        raise CutError("a number of more than 1,024 digits")
    machine.top.append(word == b"01" if word in (b"00", b"01") else int(word))


def _line_text(machine: Machine) -> None:
    machine.top.append(machine.line().strip(b"'\"").decode("utf-8", "replace"))


def _named(machine: Machine) -> None:
    raise RefusedError(f"{_word(machine.line())}.{_word(machine.line())}")


def _named_by_stack(machine: Machine) -> None:
    raise RefusedError(".".join(_word(str(part).encode()) for part in machine.top[-2:]) or "a name")


def _refuse(what: str) -> Callable[[Machine], None]:
    def read(machine: Machine) -> None:
        raise RefusedError(what)

    return read


def _word(raw: bytes) -> str:
    return "".join(char if char.isprintable() else "?" for char in raw[:80].decode("utf-8", "replace"))


def _pop(machine: Machine) -> None:
    if machine.top:
        machine.top.pop()
    else:
        machine.close()


# The instructions by their byte; protocols 0 to 5.
STEPS: dict[int, Callable[[Machine], None]] = {
    ord("("): _mark,
    ord("0"): _pop,
    ord("1"): lambda machine: machine.close().clear(),
    ord("2"): lambda machine: machine.top.append(machine.top[-1]),
    ord("F"): lambda machine: machine.top.append(float(machine.line())),
    ord("I"): _integer,
    ord("L"): _integer,
    ord("S"): _line_text,
    ord("V"): _line_text,
    ord("G"): _number(">d", 8),
    ord("J"): _number("<i", 4),
    ord("K"): _number("<B", 1),
    ord("M"): _number("<H", 2),
    ord("N"): _constant(None),
    0x88: _constant(True),
    0x89: _constant(False),
    0x8A: _long(1),
    0x8B: _long(4),
    ord("T"): _text(4),
    ord("U"): _text(1),
    ord("X"): _text(4),
    0x8C: _text(1),
    0x8D: _text(8),
    ord("B"): _raw(4),
    ord("C"): _raw(1),
    0x8E: _raw(8),
    0x96: _raw(8),
    ord("a"): _append,
    ord("e"): _appends,
    ord("s"): _set,
    ord("u"): _sets,
    ord("]"): lambda machine: machine.top.append([]),
    ord("}"): lambda machine: machine.top.append({}),
    ord(")"): _constant(()),
    ord("l"): _closed(list),
    ord("t"): _closed(tuple),
    ord("d"): _closed(_as_dict),
    0x85: _last(1),
    0x86: _last(2),
    0x87: _last(3),
    ord("p"): lambda machine: machine.memo.__setitem__(int(machine.line()), machine.top[-1]),
    ord("q"): _put(1),
    ord("r"): _put(4),
    0x94: lambda machine: machine.memo.__setitem__(len(machine.memo), machine.top[-1]),
    ord("g"): lambda machine: machine.top.append(machine.memo[int(machine.line())]),
    ord("h"): _get(1),
    ord("j"): _get(4),
    0x80: _skip(1),
    0x95: _skip(8),
    ord("c"): _named,
    ord("i"): _named,
    0x93: _named_by_stack,
    ord("o"): _refuse("a class"),
    ord("R"): _refuse("a call"),
    **dict.fromkeys((ord("b"), 0x81, 0x92), _refuse("an object")),
    **dict.fromkeys(b"PQ", _refuse("a persistent object")),
    **dict.fromkeys((0x82, 0x83, 0x84), _refuse("an extension")),
    **dict.fromkeys((0x97, 0x98), _refuse("a buffer")),
}
