"""Makes the page of ``published.py``: errors by source, what a row is off by and why, verdicts, what was left out."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rows import GIB, MIB, CannotWrite, written

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib

CAUSES = Path(__file__).resolve().parent / "published_causes.toml"
NEAR, OFF = 0.05, 0.05
Row = Mapping[str, str]


def page(rows: Sequence[Row], seen: Mapping[str, Any]) -> str:
    """Return the page as Markdown."""
    by_id = {row["id"]: row for row in rows}
    ran = [(by_id[name], one) for name, one in seen.items() if name in by_id and not one.problem]
    readings = [(row, one) for row, one in ran if one.published]
    dates = sorted({one.date for one in seen.values()})
    return "\n".join(
        [
            "# Published measurements and verdicts",
            "",
            f"Written by `published.py` ({dates[0]} to {dates[-1]}); the README beside it says what the columns mean."
            if dates
            else "Nothing was run.",
            "",
            "## Peaks",
            "",
            *_peaks(readings),
            "## Verdicts",
            "",
            *_verdicts(ran),
            "## Not run",
            "",
            *_left_out(rows, seen),
        ]
    )


def contexts(readings: Sequence[tuple[Row, Any]]) -> dict[str, float]:
    """Return, by source, the median of what nvidia-smi read beside the reserved memory: the driver's context."""
    beside: defaultdict[str, list[float]] = defaultdict(list)
    for row, one in readings:
        if one.reading == "device":
            beside[row["source"]].append(one.published - one.reserved)
    return {source: statistics.median(values) for source, values in beside.items()}


def _peaks(readings: Sequence[tuple[Row, Any]]) -> list[str]:
    context, causes = contexts(readings), tomllib.loads(CAUSES.read_text(encoding="utf-8"))
    errors: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    lines = []
    for row, one in readings:
        whole = one.virtual + (context[row["source"]] if one.reading == "device" else 0)
        error = whole / one.published - 1
        errors[row["source"], one.reading].append(error)
        cause = causes.get(row["id"], "") if abs(error) > OFF else ""
        if abs(error) > OFF and not cause:
            cause = "not known"
        lines.append(
            f"| {row['id']} | {row['model']} | {row['num_gpus']} x {row['gpu']} | {row['micro_batch']} x "
            f"{row['seq_len'] or '-'} | {one.reading} | {one.published / GIB:.3f} | {whole / GIB:.3f} | {error:+.1%} | "
            f"{cause} |"
        )
    return [
        *_summary(errors),
        "",
        *(
            f"{source}: {size / MIB:.0f} MiB, the median rest, are taken as the context."
            for source, size in context.items()
        ),
        "",
        "| row | model | GPU | batch x length | reading | published, GiB | dry run, GiB | error | cause |",
        "| --- | --- | --- | --- | --- | ---: | ---: | ---: | --- |",
        *lines,
        "",
    ]


def _summary(errors: Mapping[tuple[str, str], Sequence[float]]) -> list[str]:
    lines = [
        "| source | reading | rows | median error | median of size | within 1 % | within 5 % | worst |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    whole: defaultdict[str, list[float]] = defaultdict(list)
    for (source, reading), values in errors.items():
        lines.append(f"| {source} | {reading} | {_figures(values)} |")
        whole[reading] += values
    lines += [f"| all | {reading} | {_figures(values)} |" for reading, values in whole.items()]
    return lines


def _figures(values: Sequence[float]) -> str:
    sizes = [abs(value) for value in values]
    return (
        f"{len(values)} | {statistics.median(values):+.1%} | {statistics.median(sizes):.1%} | "
        f"{sum(size <= 0.01 for size in sizes)} | {sum(size <= 0.05 for size in sizes)} | {max(values, key=abs):+.1%}"
    )


def _verdicts(ran: Sequence[tuple[Row, Any]]) -> list[str]:
    causes = tomllib.loads(CAUSES.read_text(encoding="utf-8"))
    counts: Counter[str] = Counter()
    lines = []
    for row, one in ran:
        outcome = row.get("outcome", "fits")
        right = (outcome == "OOM") != one.fits
        near = abs(one.allocated / one.room - 1) <= NEAR
        counts["within 5 % of the limit" if near else "right" if right else "wrong"] += 1
        if outcome == "OOM" or not right or near:
            lines.append(
                f"| {row['id']} | {row['model']} | {row['num_gpus']} x {row['gpu']} | {outcome} | "
                f"{'fits' if one.fits else 'OOM'} | {one.allocated / GIB:.2f} | {one.room / GIB:.2f} | "
                f"{'right' if right else 'wrong'}{' (within 5 %)' if near else ''} | "
                f"{causes.get(row['id'] + '-verdict', '') if not right else ''} |"
            )
    told = ", ".join(f"{count} {name}" for name, count in counts.most_common())
    return [
        f"{len(ran)} runs: {told}.",
        "A run that was measured fits; the table has those that ran out, that lie near the limit or that are judged wrong.",
        "",
        "| row | model | GPU | really | dry run | needs, GiB | room, GiB | verdict | cause |",
        "| --- | --- | --- | --- | --- | ---: | ---: | --- | --- |",
        *lines,
        "",
    ]


def _left_out(rows: Sequence[Row], seen: Mapping[str, Any]) -> list[str]:
    reasons: Counter[str] = Counter()
    lines = [f"- {name}: {one.problem}" for name, one in seen.items() if one.problem]
    for row in rows:
        try:
            written(row)
        except CannotWrite as error:
            reasons[f"{row['source']}: {error}"] += 1
            continue
        if row["id"] not in seen:
            lines.append(f"- {row['id']}: not run.")
    return [*lines, *(f"- {count} rows of {reason}." for reason, count in reasons.most_common())]
