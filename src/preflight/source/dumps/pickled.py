"""Reads pickles of plain values, and refuses all others: nothing that a pickle names is imported, built or called.

A pickle is a program. This reads the instructions for numbers, strings, lists, tuples and dictionaries itself; an instruction
that would look up a name ends the reading and is told by that name. Python's own reader is not used, because its memo and
its byte arrays can be made to ask for more memory than the machine has, and because it gives nothing of a pickle that was cut
off: here, what stands before the end is returned with the problem.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import msgspec


class Unpickled(msgspec.Struct, frozen=True):
    """What a pickle holds, and what is wrong with it; ``refused`` names what it wanted to look up."""

    value: Any
    problem: str | None = None
    refused: str | None = None


class _RefusedError(Exception):
    pass


class _CutError(Exception):
    pass


class _Machine:
    """The stack of a pickle: segments of values, one more for each open mark."""

    __slots__ = ("at", "data", "memo", "segments", "top")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.top: list[Any] = []
        self.segments: list[list[Any]] = []
        self.memo: dict[int, Any] = {}

    def take(self, size: int) -> bytes:
        end = self.at + size
        if end > len(self.data):
            raise _CutError(f"it is cut off: {size} bytes wanted at {self.at}, {len(self.data) - self.at} are there")
        piece = self.data[self.at : end]
        self.at = end
        return piece

    def line(self) -> bytes:
        end = self.data.find(b"\n", self.at)
        if end < 0:
            raise _CutError("it is cut off within a line")
        piece = self.data[self.at : end]
        self.at = end + 1
        return piece

    def close(self) -> list[Any]:
        """Return the values since the last mark."""
        if not self.segments:
            raise _CutError("an end without a beginning")
        values, self.top = self.top, self.segments.pop()
        return values


def unpickle(data: bytes) -> Unpickled:
    """Read a pickle of plain values; one that is cut off gives what was read, one that names a class or a function nothing."""
    machine = _Machine(data)
    try:
        while True:
            at = _run(machine)
            if at >= len(data):
                raise _CutError("it is cut off")
            code = data[at]
            if code == 0x2E:  # STOP
                return Unpickled(machine.top[-1])
            machine.at = at + 1
            action = _STEPS.get(code)
            if action is None:
                raise _CutError(f"byte {code:#04x} at {at} is no instruction of a pickle")
            action(machine)
    except _RefusedError as error:
        return Unpickled(None, f"it wants to look up {error}; nothing of it was run", str(error))
    except (_CutError, IndexError, KeyError, TypeError, ValueError, struct.error) as error:
        return Unpickled(_salvage(machine), f"not a whole pickle: {error or type(error).__name__}")


def _run(machine: _Machine) -> int:
    """Go through the instructions that nearly all of a dump is made of, and return where another one stands.

    A dump of 2,000 calls with their stacks has half a million of them: a call for each would take seconds.
    What is cut off within one of them is left to its own action, which says so.
    """
    data, at, top, memo, size = machine.data, machine.at, machine.top, machine.memo, len(machine.data)
    while at < size:
        code = data[at]
        if code == 0x68 and at + 1 < size:  # get
            top.append(memo[data[at + 1]])
            at += 2
        elif code == 0x71 and at + 1 < size:  # put
            memo[data[at + 1]] = top[-1]
            at += 2
        elif code == 0x6A and at + 4 < size:  # long get
            top.append(memo[int.from_bytes(data[at + 1 : at + 5], "little")])
            at += 5
        elif code == 0x72 and at + 4 < size:  # long put
            memo[int.from_bytes(data[at + 1 : at + 5], "little")] = top[-1]
            at += 5
        elif code == 0x58 and at + 4 < size:  # text
            end = at + 5 + int.from_bytes(data[at + 1 : at + 5], "little")
            if end > size:
                break
            top.append(str(data[at + 5 : end], "utf-8", "replace"))
            at = end
        elif code == 0x28:  # mark
            machine.segments.append(top)
            top = machine.top = []
            at += 1
        elif code == 0x75 and machine.segments and machine.segments[-1]:  # set items
            values, top = top, machine.segments.pop()
            machine.top = top
            _fill(top[-1], values)
            at += 1
        elif code == 0x7D:
            top.append({})
            at += 1
        elif code == 0x5D:
            top.append([])
            at += 1
        elif code == 0x4B and at + 1 < size:
            top.append(data[at + 1])
            at += 2
        elif code == 0x4D and at + 2 < size:
            top.append(data[at + 1] | data[at + 2] << 8)
            at += 3
        elif code == 0x4A and at + 4 < size:
            top.append(int.from_bytes(data[at + 1 : at + 5], "little", signed=True))
            at += 5
        else:
            break
        machine.at = at
    return at


def _salvage(machine: _Machine) -> Any:
    """Close everything that is open, from the inside out, and return the outermost value."""
    while machine.segments:
        values = machine.close()
        holder = machine.top[-1] if machine.top else None
        if isinstance(holder, dict):
            _fill(holder, values)
        elif isinstance(holder, list):
            holder.extend(values)
        else:
            machine.top.append(tuple(values))
    return machine.top[0] if machine.top else None


_KEYS = (str, int, float, bytes, tuple, type(None))


def _fill(holder: dict[Any, Any], values: list[Any]) -> None:
    """Set pairs; what cannot be a key is left out."""
    if not isinstance(holder, dict):
        raise _CutError("values for a dictionary that is none")
    pairs = zip(values[::2], values[1::2], strict=False)
    holder.update({key: value for key, value in pairs if isinstance(key, _KEYS)})


def _constant(value: Any) -> Callable[[_Machine], None]:
    return lambda machine: machine.top.append(value)


def _number(form: str, size: int) -> Callable[[_Machine], None]:
    unpack = struct.Struct(form).unpack
    return lambda machine: machine.top.append(unpack(machine.take(size))[0])


def _text(width: int) -> Callable[[_Machine], None]:
    def read(machine: _Machine) -> None:
        size = int.from_bytes(machine.take(width), "little")
        machine.top.append(machine.take(size).decode("utf-8", "replace"))

    return read


def _raw(width: int) -> Callable[[_Machine], None]:
    return lambda machine: machine.top.append(machine.take(int.from_bytes(machine.take(width), "little")))


def _long(width: int) -> Callable[[_Machine], None]:
    def read(machine: _Machine) -> None:
        size = int.from_bytes(machine.take(width), "little")
        # A number of more than 1,024 bytes is no measurement, and printing it would take for ever.
        if size > 1024:
            raise _CutError(f"a number of {size} bytes")
        machine.top.append(int.from_bytes(machine.take(size), "little", signed=True))

    return read


def _put(width: int) -> Callable[[_Machine], None]:
    def read(machine: _Machine) -> None:
        machine.memo[int.from_bytes(machine.take(width), "little")] = machine.top[-1]

    return read


def _get(width: int) -> Callable[[_Machine], None]:
    return lambda machine: machine.top.append(machine.memo[int.from_bytes(machine.take(width), "little")])


def _last(count: int) -> Callable[[_Machine], None]:
    def read(machine: _Machine) -> None:
        top = machine.top
        values = tuple(top[-count:])
        if len(values) < count:
            raise _CutError("too few values for a tuple")
        del top[-count:]
        top.append(values)

    return read


def _skip(size: int) -> Callable[[_Machine], None]:
    def read(machine: _Machine) -> None:
        machine.take(size)

    return read


def _mark(machine: _Machine) -> None:
    machine.segments.append(machine.top)
    machine.top = []


def _closed(kind: Callable[[list[Any]], Any]) -> Callable[[_Machine], None]:
    def read(machine: _Machine) -> None:
        values = machine.close()  # which brings back the segment below
        machine.top.append(kind(values))

    return read


def _as_dict(values: list[Any]) -> dict[Any, Any]:
    made: dict[Any, Any] = {}
    _fill(made, values)
    return made


def _list_of(machine: _Machine) -> list[Any]:
    holder = machine.top[-1]
    if not isinstance(holder, list):
        raise _CutError("values for a list that is none")
    return holder


def _append(machine: _Machine) -> None:
    value = machine.top.pop()
    _list_of(machine).append(value)


def _appends(machine: _Machine) -> None:
    values = machine.close()
    _list_of(machine).extend(values)


def _set(machine: _Machine) -> None:
    value, key = machine.top.pop(), machine.top.pop()
    _fill(machine.top[-1], [key, value])


def _sets(machine: _Machine) -> None:
    values = machine.close()
    _fill(machine.top[-1], values)


def _integer(machine: _Machine) -> None:
    word = machine.line().rstrip(b"L")
    if len(word) > 1024:
        raise _CutError("a number of more than 1,024 digits")
    machine.top.append(word == b"01" if word in (b"00", b"01") else int(word))


def _line_text(machine: _Machine) -> None:
    machine.top.append(machine.line().strip(b"'\"").decode("utf-8", "replace"))


def _named(machine: _Machine) -> None:
    raise _RefusedError(f"{_word(machine.line())}.{_word(machine.line())}")


def _named_by_stack(machine: _Machine) -> None:
    raise _RefusedError(".".join(_word(str(part).encode()) for part in machine.top[-2:]) or "a name")


def _refuse(what: str) -> Callable[[_Machine], None]:
    def read(machine: _Machine) -> None:
        raise _RefusedError(what)

    return read


def _word(raw: bytes) -> str:
    return "".join(char if char.isprintable() else "?" for char in raw[:80].decode("utf-8", "replace"))


def _pop(machine: _Machine) -> None:
    if machine.top:
        machine.top.pop()
    else:
        machine.close()


# The instructions by their byte; protocols 0 to 5.
_STEPS: dict[int, Callable[[_Machine], None]] = {
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
