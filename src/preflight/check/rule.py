"""What a rule is: a declaration, a page, examples that are executed as tests, and a check.

A rule is one file ``rules/FAMILY/NAME.py``, NAME being the rule's name with underscores. It holds

* the docstring: the page. Its first line is the title; then sections of Markdown (What it does, Why, Fix,
  When to ignore, References);
* ``RULE = Rule(...)``: the declaration;
* ``BAD`` and ``GOOD``: tuples of source text or ``Example``: at least three bad spellings, and near misses;
* ``check(context)``: yields findings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Literal

import msgspec

from preflight.vocabulary.finding import Confidence, Finding, Persona, Severity

if TYPE_CHECKING:
    from preflight.check.context import Context
    from preflight.check.observed.run import Run

Layer = Literal["S", "D", "C", "V"]
Need = Literal[
    "training_loop",
    "optimizer",
    "loader",
    "scheduler",
    "scaler",
    "model",
    "forward",
    "distributed",
    "memory",
    "gpu",
    "training_arguments",
    "complete",
    "parameters",
    "capacity",
]


class Example(msgspec.Struct, frozen=True):
    """An example script.

    Attributes:
        code: The script.
        arguments: Its command line.
        files: Further files beside it: modules, configurations.
        gpu: The GPU it is checked for.
        launch: The launch line.
        count: How many findings of the rule a bad example has.
    """

    code: str
    arguments: tuple[str, ...] = ()
    files: dict[str, str] = {}
    gpu: str | None = None
    gpus: int | None = None
    launch: str | None = None
    count: int = 1


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """The declaration of a rule.

    Attributes:
        name: Kebab case; reads as "allow NAME": ``dataloader-without-workers``.
        code: Short and stable: ``EFF002``.
        severity: error: the run fails or trains the wrong thing. warning: it wastes much or is likely wrong. info: worth knowing.
        confidence: How sure a finding of this rule is by default.
        needs: What has to be known; where it is not, the rule counts as not evaluated.
        layer: S syntax, D data flow, C configuration, V needs sizes or a run.
        persona: ``regular`` findings are shown by default; ``pedantic`` and ``audit`` ones on request.
        tags: Words to select by.
        beside: Whether it is told beside a monitored run though it is a warning: the run of a program that is wrong in this
            way looks like that of one that is right, and few programs are so on purpose.
    """

    name: str
    code: str
    severity: Severity
    confidence: Confidence = "likely"
    needs: tuple[Need, ...] = ()
    layer: Layer = "D"
    persona: Persona = "regular"
    tags: tuple[str, ...] = ()
    beside: bool = False


Check = Callable[["Context"], Iterator[Finding]]
Observe = Callable[["Run"], Iterator[Finding]]
Disproves = Callable[["Run", Finding], bool]


class RuleFile:
    """A rule with its page, as read from its file."""

    __slots__ = ("family", "module", "rule")

    def __init__(self, rule: Rule, family: str, module: str) -> None:
        """Keep the parts."""
        self.rule, self.family, self.module = rule, family, module

    @property
    def page(self) -> str:
        """The page, in Markdown."""
        from importlib import import_module

        return import_module(self.module).__doc__ or ""

    @property
    def title(self) -> str:
        """The first line of the page."""
        return self.page.strip().partition("\n")[0].rstrip(".")


class LoadedRule(RuleFile):
    """A rule that reads, with its check."""

    __slots__ = ("check",)

    def __init__(self, rule: Rule, check: Check, family: str, module: str) -> None:
        """Keep the parts."""
        super().__init__(rule, family, module)
        self.check = check


class RunRule(RuleFile):
    """A rule that asks what a dry run saw.

    Attributes:
        observe: Yields findings.
        settles: A finding of reading that a complete run does not show is dropped.
        alone: What it finds is told also where reading found nothing; otherwise it only confirms.
        disproves: Says whether what a complete run saw drops one finding of reading; narrower than ``settles``.
    """

    __slots__ = ("alone", "disproves", "observe", "settles")

    def __init__(
        self,
        rule: Rule,
        observe: Observe,
        family: str,
        module: str,
        settles: bool,
        alone: bool = True,
        disproves: Disproves | None = None,
    ) -> None:
        """Keep the parts."""
        super().__init__(rule, family, module)
        self.observe, self.settles, self.alone, self.disproves = observe, settles, alone, disproves
