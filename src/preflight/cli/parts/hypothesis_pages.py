"""Which experiment to make next, as text and JSON."""

from __future__ import annotations

import os
import textwrap

from preflight.cli.parts.writing import Writing, put
from preflight.errors import UsageError
from preflight.investigate.hypotheses import advise, beliefs_of, updated
from preflight.vocabulary.quantity import format_share


def next_test(text: str, look: Writing, results: tuple[str, ...] = (), gpus: int = 1, chance: float = 1.0) -> int:
    """Say what to do next about causes; ``text`` is ``cause=probability,...`` or a report of investigate."""
    from preflight.catalog.experiment_files import load_experiments
    from preflight.cli.parts.recording import catalog

    experiments = load_experiments(catalog())
    by_name = {one.id: one for one in experiments}
    causes = _causes(text)
    if not os.path.isfile(text):
        _known(causes, {name for one in experiments for name in one.expects})
    beliefs = beliefs_of(causes)
    done = []
    for word in results:
        name, equals, outcome = word.partition("=")
        if not equals or name not in by_name:
            raise UsageError(f"--result {word}: is not EXPERIMENT=OUTCOME", f"one of {', '.join(by_name)}")
        beliefs = updated(beliefs, by_name[name], outcome, chance)
        done.append(name)
    advice = advise(beliefs, experiments, done=done, gpus=gpus, chance=chance)
    order = sorted(beliefs.items(), key=lambda one: (-one[1], one[0]))
    if look.format == "json":
        from preflight.report.parts.plain import encode

        put(
            encode({
                "schema": "preflight.advice/1", "causes": {name: round(p, 4) for name, p in order}, "stop": advice.stop,
                "next": [
                    {"experiment": one.experiment.id, "title": one.experiment.title, "bits": round(one.bits, 3),
                     "runs": one.runs, "gpu_minutes": round(one.cost, 2),
                     "outcomes": {name: {"probability": round(p, 3), "then": cause, "with": round(q, 3)}
                                  for name, (p, cause, q) in one.tells.items()}}
                    for one in advice.ranked
                ],
            }),
            look,
        )  # fmt: skip
        return 0 if advice.stop is None or "probable" in advice.stop else 3
    if look.format != "text":
        raise UsageError(f"advice cannot be shown as {look.format}", "text or json")
    lines = [f"{p:>5.0%}  {name}" for name, p in order if p >= 0.005] + [""]
    if advice.stop is not None:
        put("\n".join([*lines, f"Stop: {advice.stop}."]) + "\n", look)
        return 0 if "probable" in advice.stop else 3
    for number, one in enumerate(advice.ranked[:3]):
        runs = f", {one.runs} runs" if one.runs > 1 else ""
        lines.append(
            f"{'Next' if not number else 'Then'}: {one.experiment.title} "
            f"({one.cost:.3g} GPU-minutes{runs}; {one.bits:.2f} bits; {one.experiment.id})"
        )
        if not number:
            lines += textwrap.wrap(one.experiment.how, look.width - 2, initial_indent="  ", subsequent_indent="  ")
            seen = {outcome.name: outcome.seen for outcome in one.experiment.outcomes}
            for name, (p, cause, q) in one.tells.items():
                told = f"{format_share(p)}: {seen[name]} ({name}): then {cause} {format_share(q)}"
                lines += textwrap.wrap(told, look.width - 2, initial_indent="  - ", subsequent_indent="    ")
            if one.experiment.undo:
                lines.append(f"  Afterwards: {one.experiment.undo}")
    put("\n".join(lines) + "\n", look)
    return 0


def _known(causes: dict[str, float], told_apart: set[str]) -> None:
    """Refuse a cause that nobody has heard of: no experiment would say anything of it.

    Raises:
        UsageError: No experiment, signature or remedy names it.
    """
    from preflight.catalog.remedy_files import load_remedies
    from preflight.catalog.signature_files import load_signatures
    from preflight.cli.parts.recording import catalog
    from preflight.errors import nearest
    from preflight.investigate.hypotheses import ELSE

    folders = tuple(catalog())
    unknown = [name for name in causes if name not in told_apart and name != ELSE]
    if not unknown:
        return
    names = told_apart | {ELSE}
    names |= {cause.id for one in load_signatures(folders) for cause in one.causes}
    names |= {cause for one in load_remedies(folders) for cause in one.causes}
    for name in unknown:
        if name not in names:
            near = nearest(name, sorted(names))
            raise UsageError(
                f"no cause is called {name!r}",
                f"did you mean {near}?" if near else f"for example {sorted(told_apart)[0]}",
            )


def _causes(text: str) -> dict[str, float]:
    if os.path.isfile(text):
        from preflight.cli.parts.fixes import read_incident

        return {one.cause: one.probability for one in read_incident(text).hypotheses}
    causes = {}
    for word in text.split(","):
        name, equals, number = word.strip().partition("=")
        try:
            causes[name] = float(number)
        except ValueError:
            raise UsageError(f"{word.strip()!r} is not CAUSE=PROBABILITY", "broken-link=0.5,slow-rank=0.3") from None
        if not equals or not name:
            raise UsageError(f"{word.strip()!r} is not CAUSE=PROBABILITY", "broken-link=0.5,slow-rank=0.3")
    return causes


__all__ = ["next_test"]
