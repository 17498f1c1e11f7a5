"""Reads pickles of plain values, and refuses all others: nothing that a pickle names is imported, built or called.

A pickle is a program. This reads the instructions for numbers, strings, lists, tuples and dictionaries itself; an instruction
that would look up a name ends the reading and is told by that name. Python's own reader is not used, because its memo and
its byte arrays can be made to ask for more memory than the machine has, and because it gives nothing of a pickle that was cut
off: here, what stands before the end is returned with the problem.
"""

from __future__ import annotations

import struct
from typing import Any

import msgspec

from preflight.source.dumps.pickle_stack import CutError, Machine, RefusedError, fill
from preflight.source.dumps.pickle_steps import STEPS


class Unpickled(msgspec.Struct, frozen=True):
    """What a pickle holds, and what is wrong with it; ``refused`` names what it wanted to look up."""

    value: Any
    problem: str | None = None
    refused: str | None = None


def unpickle(data: bytes) -> Unpickled:
    """Read a pickle of plain values; one that is cut off gives what was read, one that names a class or a function nothing."""
    machine = Machine(data)
    try:
        while True:
            at = _run(machine)
            if at >= len(data):
                raise CutError("it is cut off")
            code = data[at]
            if code == 0x2E:  # STOP
                return Unpickled(machine.top[-1])
            machine.at = at + 1
            action = STEPS.get(code)
            if action is None:
                raise CutError(f"byte {code:#04x} at {at} is no instruction of a pickle")
            action(machine)
    except RefusedError as error:
        return Unpickled(None, f"it wants to look up {error}; nothing of it was run", str(error))
    except (CutError, IndexError, KeyError, TypeError, ValueError, struct.error) as error:
        return Unpickled(_salvage(machine), f"not a whole pickle: {error or type(error).__name__}")


def _run(machine: Machine) -> int:
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
            fill(top[-1], values)
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


def _salvage(machine: Machine) -> Any:
    """Close everything that is open, from the inside out, and return the outermost value."""
    while machine.segments:
        values = machine.close()
        holder = machine.top[-1] if machine.top else None
        if isinstance(holder, dict):
            fill(holder, values)
        elif isinstance(holder, list):
            holder.extend(values)
        else:
            machine.top.append(tuple(values))
    return machine.top[0] if machine.top else None
