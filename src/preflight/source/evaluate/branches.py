"""Branches: a known test takes one side; an unknown one takes both, and the sides are joined.

A test that an option or the environment decides is followed on both sides too;
the side of its value is preferred, the other is marked as one that the defaults do not lead to.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from preflight.source.trace import Context, place_of
from preflight.source.values import Choice, Func, Known, Obj, Value, settle

if TYPE_CHECKING:
    from preflight.source.evaluate.machine import Machine

Signal = str | None


def decide(m: Machine, value: Value) -> tuple[bool | None, bool]:
    """The truth of a test, and whether it is soft (decided by an option that a person can change)."""
    from preflight.source.evaluate.truth import truth

    if isinstance(value, Obj) and value.cls is not None and id(value) not in m.assumed:
        answer = _asked(m, value)
        if answer is not None:
            value = answer
    if isinstance(value, Choice):
        settled = settle(value)
        result = truth(value)
        if result is None and settled is not value:
            return truth(settled), True
        return result, False
    if id(value) in m.assumed:
        return m.assumed[id(value)], False
    result = truth(value)
    return result, isinstance(value, Known) and value.soft


def _asked(m: Machine, value: Obj) -> Value | None:
    """What ``__bool__`` or ``__len__`` of a class of the project says; None where it has neither."""
    from preflight.source.evaluate.functions import call_function

    for name in ("__bool__", "__len__"):
        method = value.cls.lookup(name) if value.cls is not None else None
        if isinstance(method, Func) and value.site is not None:
            return call_function(m, method, [value], {}, value.site.node)
    return None


def run_if(m: Machine, node: ast.If) -> Signal:
    """Follow an if statement."""
    from preflight.source.evaluate.conditions import test_value
    from preflight.source.evaluate.statements import run_block

    test = test_value(m, node.test)
    result, soft = decide(m, test)
    if result is not None and not soft:
        return run_block(m, node.body if result else node.orelse)
    if m.given is not None:
        result = m.given.sides.get(place_of(m.frame.module.script, node), result)
    return _both(m, node, test, result, lambda: run_block(m, node.body), lambda: run_block(m, node.orelse))


def _both(m: Machine, node: ast.stmt, test: Value, result: bool | None, yes: Any, no: Any) -> Signal:
    signals: list[Signal] = []
    writes: list[Any] = []
    outer = m.context
    contexts: list[Context] = []
    for polarity, body in ((True, yes), (False, no)):
        taken = None if result is None else result is polarity
        m.context = Context(outer, "if", node, m.frame.module.script, test, polarity, taken)
        contexts.append(m.context)
        returned = len(m.frame.returns)
        signal, finals = _assuming(m, test, polarity, body, getattr(node, "test", None))
        if taken is False and signal == "return":
            m.frame.returns[returned:] = [(v, True) for v, _ in m.frame.returns[returned:]]
        signals.append(signal)
        writes.append(None if signal is not None else finals)
    m.context = outer
    if result is None and ("break" in signals or "continue" in signals):
        m.early += 1
    preferred = None if result is None else (0 if result else 1)
    if signals[0] is None or signals[1] is None:
        m.merge(writes[0], writes[1], preferred, test)
        for ended, goes_on in ((0, 1), (1, 0)):
            if signals[ended] is not None:
                m.implied = contexts[goes_on]
                if preferred == ended and signals[ended] == "raise":
                    # The defaults end in an error: whoever runs the script gives other values, and goes on here.
                    m.implied.taken = outer.taken
        return None
    # Both sides end. What control does next is what the preferred side does; return covers a mixture.
    if preferred is not None:
        return signals[preferred]
    return (
        signals[0]
        if signals[0] == signals[1]
        else next((s for s in ("continue", "break", "return") if s in signals), "raise")
    )


def _assuming(m: Machine, test: Value, polarity: bool, body: Any, expression: ast.expr | None) -> Any:
    from preflight.source.evaluate.conditions import implied, narrowed

    facts = dict(implied(test, polarity))
    before = {key: m.assumed.get(key) for key in facts}
    m.assumed.update(facts)
    try:

        def inside() -> Signal:
            if expression is not None:
                for name, value in narrowed(m, expression, polarity):
                    m.bind(name, value)
            result: Signal = body()
            return result

        return m.attempt(inside)
    finally:
        for key, old in before.items():
            if old is None:
                m.assumed.pop(key, None)
            else:
                m.assumed[key] = old


def run_match(m: Machine, node: ast.Match) -> Signal:
    """Follow a match statement: literal cases are compared, others are possible."""
    from preflight.source.evaluate.expressions import evaluate
    from preflight.source.evaluate.statements import run_block

    subject = evaluate(m, node.subject)
    value = settle(subject)
    cases = list(node.cases)

    def follow(index: int) -> Signal:
        if index >= len(cases):
            return None
        case = cases[index]
        verdict = _matches(m, value, case.pattern)
        if case.guard is not None:
            evaluate(m, case.guard)
            verdict = verdict if verdict is False else None
        _capture(m, case.pattern, subject)
        soft = isinstance(value, Known) and value.soft
        if verdict is True and not soft:
            return run_block(m, case.body)
        if verdict is False and not soft:
            return follow(index + 1)
        test = m.unknown("pattern of a match statement", case.pattern, subject)
        return _both(m, node, test, verdict, lambda: run_block(m, case.body), lambda: follow(index + 1))

    return follow(0)


def _matches(m: Machine, value: Value, pattern: ast.pattern) -> bool | None:
    from preflight.source.evaluate.expressions import evaluate

    if isinstance(pattern, ast.MatchAs) and pattern.pattern is None:
        return True
    if isinstance(pattern, ast.MatchOr):
        found = [_matches(m, value, p) for p in pattern.patterns]
        return True if True in found else None if None in found else False
    if isinstance(pattern, (ast.MatchValue, ast.MatchSingleton)) and isinstance(value, Known):
        wanted = settle(evaluate(m, pattern.value)) if isinstance(pattern, ast.MatchValue) else Known(pattern.value)
        return bool(value.value == wanted.value) if isinstance(wanted, Known) else None
    return None


def _capture(m: Machine, pattern: ast.pattern, subject: Value) -> None:
    for part in ast.walk(pattern):
        if isinstance(part, ast.MatchAs) and part.name:
            m.bind(part.name, subject if part is pattern else m.unknown("part of a matched value", pattern, subject))


def run_try(m: Machine, node: Any) -> Signal:
    """Follow a try statement: the body, then each handler as something that may happen instead."""
    from preflight.source.evaluate.statements import run_block

    outer = m.context
    script = m.frame.module.script
    m.context = Context(outer, "try", node, script)
    signal = run_block(m, node.body)
    if signal is None and node.orelse:
        signal = run_block(m, node.orelse)
    for handler in node.handlers:
        m.context = Context(outer, "except", handler, script, taken=False)

        def body(handler: ast.ExceptHandler = handler) -> Signal:
            if handler.name:
                m.bind(handler.name, m.unknown("an exception", handler))
            return run_block(m, handler.body)

        returned = len(m.frame.returns)
        caught, finals = m.attempt(body)
        m.frame.returns[returned:] = [(v, True) for v, _ in m.frame.returns[returned:]]
        if caught is None:
            if signal is None:
                m.merge({}, finals, 0)
            else:
                # The body always ends (returns or raises); what follows the statement is what the handler leaves.
                m.merge(None, finals)
    m.context = outer
    if signal == "raise" and any(True for _ in node.handlers):
        signal = None
    if node.finalbody:
        m.context = Context(outer, "finally", node, script)
        final = run_block(m, node.finalbody)
        m.context = outer
        signal = final or signal
    return signal
