"""GO, NO-GO or UNKNOWN: what findings and memory make together, and the notes that explain it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from preflight.check.context import Context
from preflight.vocabulary.fact import Fact
from preflight.vocabulary.finding import Finding
from preflight.vocabulary.report import Verdict

Decides = Callable[[Finding], bool]

OTHER_FRAMEWORKS = {"tensorflow": "TensorFlow", "jax": "JAX", "mxnet": "MXNet", "paddle": "PaddlePaddle"}
"""Recognised and named, never judged: what they are called in facts, and their titles."""


ALL_TRAINED = "a run that trains all parameters"
"""What a figure of memory is for where some may be frozen."""
ANY_PRECISION = "the precision that takes most, full or mixed"
"""What a figure of memory is for where nobody knows whether mixed precision is on."""
_UNTOLD = {ALL_TRAINED: "how many this one trains", ANY_PRECISION: "which one the run has"}


def trains(facts: Mapping[str, Fact]) -> bool:
    """Whether a training with PyTorch was recognised in a script."""
    return framework_of(facts) not in (None, *OTHER_FRAMEWORKS)


def framework_of(facts: Mapping[str, Fact]) -> object:
    """The framework that a script trains with, or None where none was recognised."""
    fact = facts.get("framework")
    return fact.value if fact is not None else None


def counted_alone(context: Context) -> list[str]:
    """The classes of the networks that are trained, where there are several and the figures are those of one alone."""
    counted = context.facts.get("model.parameters")
    classes = dict.fromkeys(one.cls.qualname for one in context.reading.networks if one.cls is not None)
    added_up = context.model is not None and context.model.networks > 1
    return list(classes) if len(classes) > 1 and counted is not None and counted.known and not added_up else []


def verdict_of(
    context: Context, findings: Iterable[Finding], decides: Decides | None = None
) -> tuple[Verdict, list[str]]:
    """GO, NO-GO or UNKNOWN, with the notes that explain it.

    Args:
        context: What is known of the script.
        findings: What is shown.
        decides: Which finding alone makes it NO-GO; by default an error that is at least likely.
    """
    notes: list[str] = []
    reading = context.reading
    framework = framework_of(context.facts)
    memory = context.memory
    if not trains(context.facts):
        if framework is not None:
            notes.append(
                f"this is a {OTHER_FRAMEWORKS.get(str(framework), framework)} script: only PyTorch training is checked"
            )
        else:
            notes.append("no training was recognised: no loop that computes gradients, and no trainer that is known")
    elif memory is not None and context.capacity_bytes is not None and memory.fits == "unknown":
        notes.append(
            f"whether the memory suffices cannot be said: {memory.reason}"
            if memory.reason
            else "whether the memory suffices is too close to call"
        )
    if memory is not None and memory.assumed:
        size = "large" if memory.assumed.startswith("images") else "long"
        untold = _UNTOLD.get(memory.assumed, f"how {size} the run's own are")
        notes.append(f"the memory is that of {memory.assumed}: {untold} is not known")
    classes = counted_alone(context)
    if classes:
        notes.append(
            f"several networks are trained ({', '.join(classes)}): parameters and memory are those of one alone; "
            "a dry run has them all"
        )
    if reading.trace.exhausted:
        notes.append(
            f"the script was not followed to its end ({reading.trace.exhausted}): rules about missing calls were not evaluated"
        )
    notes += [note for note in reading.project.notes[:5] if note not in notes]
    told = any(decides(f) if decides is not None else f.decides for f in findings)
    if told or (memory is not None and memory.fits == "no"):
        return "NO-GO", notes
    if not trains(context.facts) or (
        memory is not None and context.capacity_bytes is not None and memory.fits == "unknown"
    ):
        return "UNKNOWN", notes
    return "GO", notes
