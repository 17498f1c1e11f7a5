"""What a dry run says that a real run should show, in the words in which both are compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

PARAMETERS, RATES = "parameters-as-predicted", "rates-as-predicted"
"""The relations that hold a run against a prediction."""

_WRAPPERS = ("module", "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module")


def plain_name(name: str) -> str:
    """Return the name of a parameter without what wrappers put into it: ``module.`` of DDP, ``_orig_mod.`` of compile."""
    return ".".join(part for part in name.split(".") if part not in _WRAPPERS)


def parameter(dtype: str, shape: Iterable[int], trained: bool) -> str:
    """Return what a parameter is."""
    return f"{dtype} {' x '.join(map(str, shape)) or 'one number'}, {'trained' if trained else 'not trained'}"


def rates(values: Iterable[float]) -> str:
    """Return the learning rates of a step, each once, whatever the order of their groups."""
    return ", ".join(f"{rate:.6g}" for rate in sorted(set(values)))


def of_parameter(subject: Mapping[str, Any]) -> str:
    """Return as a sentence what is predicted of a parameter."""
    return f"The parameter {subject.get('parameter')} is {_expected(subject)}"


def of_rate(subject: Mapping[str, Any]) -> str:
    """Return as a sentence what is predicted of a step's learning rate."""
    step = f"Step {subject.get('step')} of optimizer {subject.get('optimizer')}"
    return f"{step} takes the learning rate {_expected(subject)}"


def _expected(subject: Mapping[str, Any]) -> str:
    return " or ".join(map(str, subject.get("values") or [subject.get("value")]))
