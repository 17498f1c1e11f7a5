"""What a check sees: the reading, the facts, the memory, the GPU; and how it says what it found."""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections.abc import Iterable
from functools import cached_property

from preflight.check.rule import Rule
from preflight.source.launcher import Launch
from preflight.source.nodes import statements
from preflight.source.reading import Reading
from preflight.source.script import Script
from preflight.source.trace import Event, Store
from preflight.source.values import Value, plain, settle, why_unknown
from preflight.vocabulary.fact import Fact
from preflight.vocabulary.finding import Confidence, Edit, Evidence, Finding, Fix, Related, Severity
from preflight.vocabulary.hardware import Gpu
from preflight.vocabulary.memory import MemoryEstimate
from preflight.vocabulary.model import ModelSpec
from preflight.vocabulary.run import ParallelDims, RunSpec

Place = Event | Store | Value | tuple[Script, ast.AST]


class Context:
    """What the checks of all rules share for one script.

    Attributes:
        reading: The script as followed: trace, roles, loops, models.
        facts: What was learned, by dotted key (``optimizer.lr``); absent keys are not known.
        gpu: The GPU that was named, or None.
        gpus: Number of GPUs that was given, or None.
        capacity_bytes: Memory of the device, or None when none was named.
        model: The architecture in numbers, or None.
        run: How it is trained, in numbers.
        parallel: How it is spread.
        memory: The memory estimate, or None where it was not asked for.
        launch: What the launch line says; without one, nothing.
    """

    def __init__(
        self,
        reading: Reading,
        facts: dict[str, Fact],
        gpu: Gpu | None = None,
        gpus: int | None = None,
        capacity_bytes: int | None = None,
        model: ModelSpec | None = None,
        run: RunSpec | None = None,
        parallel: ParallelDims | None = None,
        memory: MemoryEstimate | None = None,
        launch: Launch | None = None,
    ) -> None:
        """Keep what was computed."""
        self.reading = reading
        self.trace = reading.trace
        self.roles = reading.roles
        self.facts = facts
        self.gpu = gpu
        self.gpus = gpus
        self.capacity_bytes = capacity_bytes
        self.model = model
        self.run = run or RunSpec()
        self.parallel = parallel or ParallelDims()
        self.memory = memory
        self.launch = launch or Launch()

    # ---- what rules ask for

    def fact(self, key: str) -> object:
        """The value of a fact, or None where it is not known."""
        found = self.facts.get(key)
        return found.value if found is not None else None

    def missing(self, need: str) -> str | None:
        """Why something that a rule needs is not there, or None when it is."""
        return self._missing[need]

    @cached_property
    def _missing(self) -> dict[str, str | None]:
        from preflight.check.verdict import OTHER_FRAMEWORKS, framework_of

        reading = self.reading
        other = OTHER_FRAMEWORKS.get(str(framework_of(self.facts)))
        absent: dict[str, tuple[bool, str]] = {
            "complete": (reading.complete, reading.trace.exhausted or ""),
            "training_loop": (bool(reading.loops), "no training loop was recognised"),
            "optimizer": (bool(reading.made("optimizer")), "no optimizer was recognised"),
            "loader": (bool(reading.made("loader")), "no data loader was recognised"),
            "scheduler": (bool(reading.made("scheduler")), "no scheduler was recognised"),
            "scaler": (bool(reading.made("scaler")), "no gradient scaler was recognised"),
            "model": (bool(reading.models), "no model was recognised"),
            "forward": (bool(reading.trace.calls("()")), "no call of a module was followed"),
            "distributed": (self.distributed, "the script is not distributed"),
            "training_arguments": (bool(reading.made("training_arguments")), "there are no TrainingArguments"),
            "memory": (self.memory is not None and self.memory.peak_bytes is not None, self._memory_reason),
            "capacity": (self.capacity_bytes is not None, "no GPU was named"),
            "gpu": (self.gpu is not None, "no GPU was named"),
            "parameters": (
                self.model is not None and self.model.parameters is not None,
                "the size of the model is not known",
            ),
        }
        if other is not None:  # its calls are named as those of PyTorch are, and mean something else
            absent |= dict.fromkeys(
                ("complete", "training_loop", "forward"), (False, f"the script trains with {other}")
            )
        return {need: None if known else reason for need, (known, reason) in absent.items()}

    @property
    def _memory_reason(self) -> str:
        return (self.memory.reason if self.memory is not None else None) or "the memory is not known"

    @cached_property
    def distributed(self) -> bool:
        """Whether the script can run on several ranks: it makes a process group, wraps its model, or is launched so."""
        names = (
            "torch.distributed.init_process_group",
            "torch.nn.parallel.DistributedDataParallel",
            "deepspeed.initialize",
            "torch.distributed.fsdp.FullyShardedDataParallel",
            "torch.distributed.fsdp.fully_shard",
            "torch.distributed.device_mesh.init_device_mesh",
            "apex.parallel.DistributedDataParallel",
            "accelerate.Accelerator",
        )
        return bool(self.trace.calls(*names)) or (self.parallel.world_size > 1)

    # ---- how rules speak

    def finding(
        self,
        rule: Rule,
        place: Place,
        message: str,
        *,
        evidence: Iterable[Evidence] = (),
        fix: Fix | None = None,
        related: Iterable[tuple[Place, str]] = (),
        severity: Severity | None = None,
        confidence: Confidence | None = None,
    ) -> Finding:
        """Make a finding at a place.

        Args:
            rule: The rule that speaks.
            place: An event, a store, a value (where it was made), or (script, node).
            message: What is wrong and why it matters, with the value seen; no full stop after one sentence.
            evidence: Values, with the arithmetic.
            fix: What to change.
            related: Further places, and what is there.
            severity: When it differs from the rule's.
            confidence: When it differs from the rule's.
        """
        script, node = self.at(place)
        return Finding(
            rule=rule.name,
            code=rule.code,
            severity=severity or rule.severity,
            confidence=confidence or rule.confidence,
            message=message,
            location=script.location(node),
            related=tuple(Related(s.location(n), text) for (s, n), text in ((self.at(p), t) for p, t in related)),
            evidence=tuple(evidence),
            fix=fix,
        )

    def at(self, place: Place) -> tuple[Script, ast.AST]:
        """The script and node of a place."""
        if isinstance(place, tuple):
            return place
        if isinstance(place, (Event, Store)):
            return place.script, place.node
        if place.site is not None:
            return place.site.script, place.site.node
        return self.reading.script, self.reading.script.tree

    # ---- values

    def value(self, value: Value | None, default: object = None) -> object:
        """The plain Python value that the defaults lead to, or ``default`` where it is not known."""
        return plain(value, default)

    def why(self, value: Value | None) -> str:
        """Why a value is not known."""
        return why_unknown(value)

    # ---- edits

    def replace(self, place: Place, text: str) -> Edit | None:
        """Replace the source of a node. None in notebooks, whose cells are not edited."""
        script, node = self.at(place)
        if script.cells or not hasattr(node, "lineno"):
            return None
        end_line = getattr(node, "end_lineno", None) or node.lineno
        return Edit(
            script.path,
            node.lineno,
            script.column(node.lineno, node.col_offset),  # type: ignore[attr-defined]
            end_line,
            script.column(end_line, getattr(node, "end_col_offset", 0) or 0),
            text,
        )

    def insert_before(self, place: Place, text: str) -> Edit | None:
        """Insert a statement on a line of its own before the statement that holds a node, indented like it."""
        script, node = self.at(place)
        statement = self.statement(script, node)
        if statement is None or script.cells:
            return None
        line = statement.lineno
        indent = script.lines[line - 1][: len(script.lines[line - 1]) - len(script.lines[line - 1].lstrip())]
        if not script.lines[line - 1][len(indent) :].startswith(script.lines[line - 1].lstrip()):
            return None
        if script.column(line, statement.col_offset) - 1 != len(indent):
            return None  # not the first statement of its line
        return Edit(script.path, line, 1, line, 1, f"{indent}{text}\n")

    def insert_after(self, place: Place, text: str) -> Edit | None:
        """Insert a statement on a line of its own after the statement that holds a node, indented like it."""
        script, node = self.at(place)
        statement = self.statement(script, node)
        if statement is None or script.cells:
            return None
        first, end = statement.lineno, getattr(statement, "end_lineno", None) or statement.lineno
        column = script.column(first, statement.col_offset) - 1
        if script.lines[first - 1][:column].strip():
            return None
        tail = script.lines[end - 1][script.column(end, statement.end_col_offset or 0) - 1 :].strip()
        if tail and not tail.startswith("#"):
            return None
        indent = script.lines[first - 1][:column]
        line_end = len(script.lines[end - 1]) + 1
        return Edit(script.path, end, line_end, end, line_end, f"\n{indent}{text}")

    def add_argument(self, place: Place, text: str) -> Edit | None:
        """Add an argument at the end of a call: ``num_workers=4``."""
        script, node = self.at(place)
        if not isinstance(node, ast.Call) or script.cells:
            return None
        end_line = node.end_lineno or node.lineno
        column = script.column(end_line, node.end_col_offset or 0) - 1  # of the closing parenthesis
        parts: list[ast.expr] = [*node.args, *(k.value for k in node.keywords)]
        if not parts:
            return Edit(script.path, end_line, column, end_line, column, text)
        last = max(parts, key=lambda p: (p.end_lineno or 0, p.end_col_offset or 0))
        line = last.end_lineno or last.lineno
        if line == end_line:
            between = script.lines[line - 1][script.column(line, last.end_col_offset or 0) - 1 : column - 1]
            if between.strip(" ),"):
                return None
            return Edit(
                script.path, end_line, column, end_line, column, text if between.rstrip().endswith(",") else f", {text}"
            )
        at = script.column(line, last.end_col_offset or 0)
        return Edit(script.path, line, at, line, at, f", {text}")

    def statement(self, script: Script, node: ast.AST) -> ast.stmt | None:
        """The innermost statement that holds a node."""
        if isinstance(node, ast.stmt):
            return node
        at = (getattr(node, "lineno", 0), getattr(node, "col_offset", 0))
        starts, found = self._statements(script)
        # Of the statements that begin before the node, the last one that has not ended is the innermost.
        for index in range(bisect_right(starts, at) - 1, -1, -1):
            statement = found[index]
            if at < (statement.end_lineno or 0, statement.end_col_offset or 0):
                return statement
        return None

    def _statements(self, script: Script) -> tuple[list[tuple[int, int]], list[ast.stmt]]:
        """The statements of a script and where they begin, in order."""
        cached = self.__dict__.setdefault("_statement_cache", {})
        if id(script) not in cached:
            ordered = sorted(statements(script.tree), key=lambda s: (s.lineno, s.col_offset))
            cached[id(script)] = ([(s.lineno, s.col_offset) for s in ordered], ordered)
        found: tuple[list[tuple[int, int]], list[ast.stmt]] = cached[id(script)]
        return found


def edits(*parts: Edit | None) -> tuple[Edit, ...]:
    """The edits of a fix; none at all when one of them could not be made."""
    return tuple(p for p in parts if p is not None) if all(p is not None for p in parts) else ()


__all__ = ["Context", "Edit", "Evidence", "Fix", "edits", "settle"]
