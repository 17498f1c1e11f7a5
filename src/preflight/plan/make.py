"""From a request to the report."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from preflight.plan.candidate import candidate
from preflight.plan.reported import report_of
from preflight.plan.request import Request
from preflight.plan.spread import settled
from preflight.vocabulary.plan import Plan
from preflight.vocabulary.report import Report


def plan_report(request: Request, say: Callable[[str], None] | None = None) -> Report:
    """Return the plan of a request as a report.

    Args:
        request: What is to be planned.
        say: Is told now and then how far a search is.

    Raises:
        UsageError: The layout that was asked for is impossible.
    """
    if request.search:
        from preflight.plan.answer import searched_report

        return searched_report(request, say)
    ready = settled(request)
    assert ready.parallel is not None
    chosen = candidate(ready, ready.parallel, ready.run)
    if ready.basic:
        chosen = msgspec.structs.replace(chosen, step=None)
    return report_of(ready, chosen, Plan(candidates=(chosen,), searched=1))
