"""A reading: everything that is known of a script, computed once and shared by all rules."""

from __future__ import annotations

import ast
from functools import cached_property
from pathlib import Path

from preflight.source.evaluate.library.torch import WRAPPERS, wrapped
from preflight.source.evaluate.machine import MAX_STEPS, Machine
from preflight.source.nodes import statements
from preflight.source.options_given import options_before_training
from preflight.source.project import Project
from preflight.source.roles import Roles
from preflight.source.script import Script
from preflight.source.trace import Context, Event, Trace, provenance
from preflight.source.training import TrainingLoop, find_loops
from preflight.source.values import Obj, Seq, Value, options_of, settle

_WRAPPING = WRAPPERS
_TRAINERS = ("trainer", "lightning_trainer")
_LED = "no training is reached by the defaults of the options: it was read as if they led to it at the test in line "
_NESTED = 3
"""So many options, one inside the other, are taken as given where nothing trains without them."""


class Reading:
    """What following a script told.

    Attributes:
        script: The script itself.
        project: The modules that were followed.
        trace: All calls, in order and with their structure.
        launch: World size and strategy given from outside the script.
    """

    def __init__(self, script: Script, project: Project, machine: Machine) -> None:
        """Keep the results of a finished evaluation."""
        self.script = script
        self.project = project
        self.machine = machine
        self.trace: Trace = machine.trace

    @property
    def complete(self) -> bool:
        """Whether the script was followed to its end: only then does the absence of a call mean something."""
        return self.trace.exhausted is None

    @cached_property
    def roles(self) -> Roles:
        """Roles of things."""
        return Roles(self.trace)

    @cached_property
    def loops(self) -> list[TrainingLoop]:
        """Loops that train."""
        return find_loops(self.trace, self.roles)

    @cached_property
    def scripts(self) -> list[Script]:
        """The script and the modules of the project that were followed."""
        return [self.script, *(s for s in self.project.modules.values() if s is not None)]

    def made(self, role: str) -> list[Obj]:
        """Things of a role that the script makes, each once, in order: ``made("optimizer")``."""
        return self._made.get(role, [])

    @cached_property
    def models(self) -> list[Obj]:
        """The networks that are trained: those whose parameters an optimizer holds or that a wrapper or trainer is given.

        Without either, the networks that the script itself makes and calls.
        """
        found: list[Obj] = []

        def add(value: Value | None) -> None:
            for option in options_of(value, limit=4):
                inner = wrapped(option)
                if (
                    isinstance(inner, Obj)
                    and self.roles.of(inner) in ("model", "lightning_module")
                    and inner not in found
                ):
                    found.append(inner)

        for optimizer in sorted(self.made("optimizer"), key=lambda o: o.context is not None and o.context.shadow):
            if optimizer.name.startswith("timm.optim.create_optimizer"):
                add(optimizer.argument(0, "model_or_params"))
                add(optimizer.argument(1, "model"))
            for value in (*optimizer.args, *optimizer.kwargs.values()):
                for part in provenance(value, 200):
                    if isinstance(part, Obj) and part.name in (
                        ".parameters",
                        ".named_parameters",
                        ".trainable_parameters",
                    ):
                        add(part.receiver)
        for event in self.trace.calls("deepspeed.initialize", ".fit", *_WRAPPING):
            add(
                event.argument(1 if event.name == "deepspeed.initialize" else 0, "model") or event.argument(0, "module")
            )
        for trainer in self.made("trainer"):
            add(trainer.argument(0, "model"))
        if not found:
            for event in self.trace.calls("()"):
                if event.receiver is not None and any(f.kind == "loop" for f in event.context.frames()):
                    holder = settle(event.receiver)
                    if isinstance(holder, Obj) and holder.kind == "instance":
                        add(holder)
        return self._whole(_as_defaults_lead(found))

    def _whole(self, parts: list[Obj]) -> list[Obj]:
        """The networks that hold the given ones and are called: whoever trains the head alone calls all of it."""
        called: dict[int, Obj] = {}
        for event in self.trace.calls("()"):
            holder = wrapped(event.receiver)
            if isinstance(holder, Obj) and not event.context.shadow and self.roles.of(holder) == "model":
                called[id(holder)] = holder
        found: list[Obj] = []
        for part in parts:
            around = [one for one in called.values() if one is not part and _holds(one, part, 4)]
            outer = [one for one in around if not any(_holds(other, one, 4) for other in around if other is not one)]
            network = outer[0] if len(outer) == 1 else part
            if network not in found:
                found.append(network)
        return found

    @cached_property
    def networks(self) -> list[Obj]:
        """The networks of the script's own classes that are trained side by side: none of them is a part of another."""
        own = [model for model in self.models if model.cls is not None]
        return [model for model in own if not any(_holds(other, model, 4) for other in own if other is not model)]

    @cached_property
    def _made(self) -> dict[str, list[Obj]]:
        found: dict[str, list[Obj]] = {}
        seen: set[int] = set()
        for event in self.trace.events:
            for option in options_of(event.result, limit=3):
                if isinstance(option, Obj) and id(option) not in seen:
                    seen.add(id(option))
                    role = self.roles.of(option)
                    if role is not None and option.kind in {"call", "instance", "copy"}:
                        found.setdefault(role, []).append(option)
        return found

    def event_of(self, value: Value) -> Event | None:
        """The call that made a thing."""
        return self.trace.results.get(id(value))

    @cached_property
    def imports(self) -> frozenset[str]:
        """First parts of all names that the script and its modules import."""
        names: set[str] = set()
        for script in self.scripts:
            for node in statements(script.tree):
                if isinstance(node, ast.Import):
                    names.update(alias.name.partition(".")[0] for alias in node.names)
                elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    names.add(node.module.partition(".")[0])
        return frozenset(names)

    def loop_of(self, event: Event) -> TrainingLoop | None:
        """The training loop that an event is in."""
        return next((loop for loop in self.loops if event.context.within(loop.frame)), None)


def read(
    script: Script,
    arguments: tuple[str, ...] | None = None,
    environment: dict[str, str | None] | None = None,
    root: Path | None = None,
    max_steps: int = MAX_STEPS,
) -> Reading:
    """Follow a script.

    Args:
        script: The parsed script.
        arguments: The script's own command line.
        environment: What a launcher sets.
        root: The repository's root, when it is not to be found from the script.
        max_steps: The budget.

    Raises:
        UsageError: The given command line does not fit the script's options.
    """
    project = Project(script, root)
    machine = Machine(project, arguments, environment, max_steps)
    machine.run_main()
    first = reading = Reading(script, project, machine)
    for _ in range(_NESTED if arguments is None else 0):
        given = options_before_training(reading.trace, reading.loops)
        if given is None or any(o.context is None or not o.context.shadow for r in _TRAINERS for o in reading.made(r)):
            break
        again = Machine(Project(script, root), arguments, environment, max_steps)
        again.given = given if reading.machine.given is None else reading.machine.given.joined(given)
        again.run_main()
        again.project.notes.insert(0, _LED + ", ".join(str(line) for _, line, _ in sorted(again.given.sides)))
        reading = Reading(script, again.project, again)
        if any(not loop.frame.shadow for loop in reading.loops):
            return reading
    return first


__all__ = ["Context", "Reading", "read"]


def _as_defaults_lead(networks: list[Obj]) -> list[Obj]:
    """The networks that are made where the defaults lead; all of them where none is."""
    led = [network for network in networks if network.context is None or not network.context.shadow]
    return led or networks


def _holds(whole: Obj, part: Obj, deep: int) -> bool:
    """Whether a thing has another one among its attributes, or theirs, so many deep."""
    seen = {id(whole)}
    level = [whole]
    for _ in range(deep + 1):
        below: list[Obj] = []
        for one in level:
            for held in _held(one):
                if held is part:
                    return True
                if id(held) not in seen and len(seen) < _MANY:
                    seen.add(id(held))
                    below.append(held)
        level = below
    return False


_MANY = 2000


def _held(one: Obj) -> list[Obj]:
    """What a thing holds: its attributes, their items, and the layers of a sequence."""
    values = [settle(value) for value in one.attrs.values()]
    if one.name == "torch.nn.Sequential" and one.kind == "call":
        values += [settle(value) for value in one.args]
    values += [settle(item) for value in values if isinstance(value, Seq) for item in value.items]
    return [value for value in values if isinstance(value, Obj)]
