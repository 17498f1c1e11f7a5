"""A plan from a file that ``preflight plan`` wrote."""

from __future__ import annotations

from pathlib import Path

from preflight.check.against_plan import PlanGiven
from preflight.errors import InputError


def read_plan(path: str) -> PlanGiven:
    """Read a plan back.

    Raises:
        InputError: The file cannot be read, or holds no plan.
    """
    from preflight.report.json import from_json

    how = "write one: preflight plan ... -o plan.json"
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"--plan {path}: {error.strerror or error}", how) from None
    try:
        report = from_json(data)
    except InputError as error:
        raise InputError(f"--plan {path}: {error}", error.hint or how) from None
    if report.plan is None:
        raise InputError(f"--plan {path}: this is the report of preflight {report.command}, not a plan", how)
    if report.plan.chosen is None:
        raise InputError(f"--plan {path}: this plan chose no layout", "plan one cluster, not several")
    inputs, chosen = report.inputs, report.plan.chosen
    gpu, gpus = inputs.get("gpu"), inputs.get("gpus")
    return PlanGiven(
        path=path,
        plan=report.plan,
        gpu=gpu if isinstance(gpu, str) else None,
        gpus=gpus if isinstance(gpus, int) else None,
        device=str(inputs["subject"]).rpartition(" x ")[2] if "subject" in inputs else None,
        capacity_bytes=chosen.memory.capacity_bytes,
    )
