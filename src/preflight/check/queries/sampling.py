"""What a function of the project gives for plain numbers: it is followed again, apart from the trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from preflight.source.values import Bound, Func, Known, Value, settle

if TYPE_CHECKING:
    from preflight.check.context import Context

BUDGET = 20_000


def sample(context: Context, function: Value, arguments: list[list[Value]]) -> list[float] | None:
    """The results of a function for several lists of arguments; None where one of them is not a plain number."""
    from preflight.source.evaluate.frame import Exhausted
    from preflight.source.evaluate.functions import call_function
    from preflight.source.trace import Trace

    base = settle(function)
    first: list[Value] = [base.receiver] if isinstance(base, Bound) else []
    func = base.func if isinstance(base, Bound) else base
    if not isinstance(func, Func):
        return None
    machine = context.reading.machine
    outer = machine.trace, machine.steps, machine.max_steps, machine.journal
    machine.trace, machine.max_steps = Trace(), machine.steps + BUDGET
    found: list[float] = []
    try:
        for given in arguments:
            results: list[Value] = []

            def run(given: list[Value] = given, results: list[Value] = results) -> str | None:
                results.append(call_function(machine, func, [*first, *given], {}, func.node))
                return None

            machine.attempt(run)
            worth = settle(results[0])
            if (
                not isinstance(worth, Known)
                or not isinstance(worth.value, (int, float))
                or isinstance(worth.value, bool)
            ):
                return None
            found.append(float(worth.value))
    except (Exhausted, RecursionError):
        return None
    finally:
        machine.trace, machine.steps, machine.max_steps, machine.journal = outer
    return found
