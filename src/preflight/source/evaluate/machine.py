"""The machine: follows a script statement by statement over values that may not be known.

It never runs the script. It is bounded in steps, in depth and in the size of what it holds,
so that any input ends. Both sides of a branch that cannot be decided are followed and joined;
a loop's body is followed once, with what the loop changes held unknown.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from preflight.source.evaluate.frame import Exhausted, Frame
from preflight.source.evaluate.undoing import Undoing
from preflight.source.project import Project
from preflight.source.script import Script
from preflight.source.trace import Context, Event, Store, Trace
from preflight.source.values import (
    Dict,
    Known,
    Module,
    Obj,
    Seq,
    Site,
    Unknown,
    Value,
    weighed,
)

if TYPE_CHECKING:
    from preflight.source.options_given import Given

MAX_STEPS = 400_000
MAX_DEPTH = 40
MAX_EVENTS = 40_000
_Result = TypeVar("_Result")


class Machine(Undoing):
    """The state of an evaluation: budget, scope, structure, trace."""

    def __init__(
        self,
        project: Project,
        arguments: tuple[str, ...] | None = None,
        environment: dict[str, str | None] | None = None,
        max_steps: int = MAX_STEPS,
    ) -> None:
        """Prepare.

        Args:
            project: Where imports are looked up.
            arguments: The script's own command line, or None when none was given.
            environment: Variables that are set (None: set, but different on each rank).
            max_steps: The budget, in nodes of the syntax tree.
        """
        super().__init__()
        self.project = project
        self.arguments = arguments
        self.environment = environment or {}
        self.steps = 0
        self.max_steps = max_steps
        self.trace = Trace()
        self.modules: dict[str, Module] = {}
        self.context = Context(None, "root", None, None)
        self.module = Module("__main__", project.script)
        self.frame = Frame(self.module, self.module.namespace)
        self.assumed: dict[int, bool] = {}
        self.call_stack: list[Any] = []
        self.numbers: dict[int, list[tuple[int, ...]]] = {}  # whole numbers that functions being followed were given
        self.serial = 0
        self.implied: Context | None = None
        self.given: Given | None = None  # options that are followed against their defaults
        self.early = 0  # undecided branches so far that leave a pass of a loop early
        self.entered: set[int] = set()
        self.parsers: list[Obj] = []
        self.training_names: set[str] = set()
        self.indexed: set[int] = set()
        self.calling: ast.AST | None = None
        self.spent: dict[int, tuple[int, int]] = {}
        self.drawings: dict[int, tuple[Obj, Obj | None]] = {}
        self.drawn_modules: dict[str, Module] = {}
        self.placed: Site | None = None
        self.drawn_for: Obj | None = None

    def take_implied(self) -> Context | None:
        """What the early exit of the statement just followed implies for the rest of its block; forgotten by asking."""
        implied, self.implied = self.implied, None
        return implied

    # ---- budget and identity

    def tick(self, cost: int = 1) -> None:
        """Spend steps.

        Raises:
            Exhausted: None are left.
        """
        self.steps += cost
        if self.steps > self.max_steps:
            raise Exhausted(f"stopped after {self.max_steps} steps")

    def number(self) -> int:
        """The next number of an event or object."""
        self.serial += 1
        return self.serial

    def site(self, node: ast.AST) -> Site:
        """The place of a node in the module that is being followed; inside a drawing, that of the script's call."""
        if self.placed is not None and self.frame.module.script.drawing:
            return self.placed
        return Site(self.frame.module.script, node)

    def apart(self, body: Callable[[], _Result], steps: int) -> _Result | None:
        """Follow something that is not the script's own, on a budget of its own; None where that does not suffice."""
        journal, self.journal = self.journal, None
        spent, most = self.steps, self.max_steps
        self.steps, self.max_steps = 0, steps
        try:
            return body()
        except Exhausted:
            return None
        finally:
            self.journal = journal
            self.steps, self.max_steps = spent, most

    # ---- making values

    def known(
        self,
        value: Any,
        node: ast.AST | None = None,
        how: str | None = None,
        soft: bool = False,
        parents: tuple[Value, ...] = (),
    ) -> Known:
        """A plain value."""
        return Known(value, self.site(node) if node is not None else None, how, soft, parents)

    def unknown(self, reason: str, node: ast.AST | None = None, *parents: Value) -> Unknown:
        """A value that cannot be known."""
        return Unknown(reason, self.site(node) if node is not None else None, parents)

    def lift(
        self,
        value: Any,
        node: ast.AST | None = None,
        how: str | None = None,
        soft: bool = False,
        parents: tuple[Value, ...] = (),
    ) -> Value:
        """Turn a plain Python value, containers included, into a value of the graph."""
        if isinstance(value, dict):
            return Dict({k: self.lift(v, node, how, soft) for k, v in value.items()}, self.site(node) if node else None)
        if isinstance(value, (list, tuple, set, frozenset)):
            kind = "list" if isinstance(value, list) else "tuple" if isinstance(value, tuple) else "set"
            return Seq([self.lift(v, node, how, soft) for v in value], kind, self.site(node) if node else None)
        if value is None or isinstance(value, (bool, int, float, complex, str, bytes)) or value is Ellipsis:
            return self.known(value, node, how, soft, parents)
        return self.unknown(f"a {type(value).__name__}", node)

    def made(
        self,
        kind: str,
        name: str,
        node: ast.AST,
        args: list[Value] | None = None,
        kwargs: dict[str, Value] | None = None,
        receiver: Value | None = None,
        cls: Any = None,
    ) -> Obj:
        """A new thing, with its place and structure."""
        obj = Obj(kind, name, self.site(node), self.context, args, kwargs, receiver, cls)
        obj.number = self.number()
        obj.drawn_for = self.drawn_for if self.frame.module.script.drawing else None
        if self.journal is not None:
            self.fresh[id(obj.attrs)] = obj.attrs
        return obj

    def plain(self, value: Value | None, default: Any = None) -> Any:
        """The Python value of a settled value, paid for by the budget where it is large."""
        result, parts = weighed(value, default)
        if parts > 100:
            self.tick(parts // 20)
        return result

    # ---- events

    def store(self, target: Value, name: str, value: Value, node: ast.AST) -> None:
        """Record an assignment to an attribute or item."""
        if not self.frame.module.script.drawing:
            script = self.frame.module.script
            self.trace.stores.append(Store(self.number(), target, name, value, node, script, self.context))

    def event(
        self,
        name: str,
        node: ast.AST,
        func: Value | None,
        receiver: Value | None,
        args: list[Value],
        kwargs: dict[str, Value],
    ) -> Event:
        """Record a call."""
        script = self.frame.module.script
        if script.drawing:
            place = self.placed or Site(script, node)
            event = Event(self.number(), name, place.node, place.script, self.context, func, receiver, args, kwargs)
            self.trace.drawn.append(event)
            return event
        event = Event(self.number(), name, node, script, self.context, func, receiver, args, kwargs)
        if len(self.trace.events) >= MAX_EVENTS:
            self.trace.exhausted = self.trace.exhausted or f"stopped after {MAX_EVENTS} calls"
            raise Exhausted(self.trace.exhausted)
        self.trace.add(event)
        return event

    # ---- names

    def lookup(self, name: str) -> Value | None:
        """Find a name: locals, enclosing functions, the module; None when it is not bound there."""
        frame: Frame | None = self.frame
        if name in self.frame.globals_:
            return self.frame.module.namespace.get(name)
        while frame is not None:
            found = frame.locals.get(name)
            if found is not None:
                return found
            frame = frame.closure
        return self.frame.module.namespace.get(name)

    def bind(self, name: str, value: Value) -> None:
        """Bind a name in the scope where an assignment would."""
        frame = self.frame
        if name in frame.globals_:
            self.write(frame.module.namespace, name, value)
            return
        if name in frame.nonlocals:
            outer = frame.closure
            while outer is not None:
                if name in outer.locals:
                    self.write(outer.locals, name, value)
                    return
                outer = outer.closure
        self.write(frame.locals, name, value)

    # ---- whole modules

    def run_main(self) -> None:
        """Follow the script as the main program; then the functions that nothing called."""
        from preflight.source.evaluate.roots import follow_data, follow_uncalled

        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(max(limit, 6_000))
        try:
            try:
                self.run_module(self.module)
            except Exhausted as error:
                self.trace.exhausted = str(error)
            except RecursionError:
                self.trace.exhausted = "stopped: nested too deeply"
            follow_data(self)
            follow_uncalled(self)
        finally:
            sys.setrecursionlimit(limit)

    def run_module(self, module: Module) -> None:
        """Follow the statements of a module once."""
        from preflight.source.evaluate.statements import run_block
        from preflight.source.evaluate.training_names import index_script

        index_script(self, module.script)
        outer_frame, outer_context = self.frame, self.context
        self.frame = Frame(module, module.namespace)
        if module is not self.module:
            self.context = Context(None, "import", None, module.script)
        try:
            run_block(self, module.script.tree.body)
        finally:
            module.done = True
            self.frame, self.context = outer_frame, outer_context

    def import_script(self, name: str, script: Script) -> Module:
        """The module of a script of the project, followed on first import."""
        key = str(script.file)
        module = self.modules.get(key)
        if module is None:
            module = self.modules[key] = Module(name, script)
            if len(self.call_stack) < MAX_DEPTH:
                self.call_stack.append(module)
                journal, self.journal = self.journal, None
                try:
                    self.run_module(module)
                finally:
                    self.call_stack.pop()
                    self.journal = journal
        return module
