"""Judges the investigation on labelled logs: a folder with one folder per case, its log files beside a ``label.json``.

A label names ``category`` (after the label guide in docs/concepts/failure-categories.md), ``accept`` (a second category that
may be named as well), ``failing_ranks`` (who raised or died, where the log shows it), ``culprit_ranks`` (who began it, where
several ranks are seen; none of them: nobody in particular), ``state`` and ``healthy``; what is not known is null.

    python benchmarks/investigate/judge_logs.py FOLDER [--misses] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_FIRST = re.compile(r"Root Cause \(first observed failure\):\s*?\n(?:.*\n){1,5}?.*?\brank\s+: (\d+)")
SUREST = 0.6
BINS = 10


@dataclass(frozen=True)
class Case:
    """A labelled log."""

    name: str
    files: tuple[Path, ...]
    category: str
    accept: tuple[str, ...]
    failing_ranks: tuple[int, ...] | None
    culprit_ranks: tuple[int, ...] | None
    url: str = ""
    cause: str = ""


@dataclass(frozen=True)
class Answer:
    """What the investigation said of a case; ``ground`` is what it rests on, ``probability`` its own before calibration."""

    category: str
    confidence: float
    failing_rank: int | None
    culprit_ranks: tuple[int, ...]
    signature: str | None
    headline: str
    error: str | None = None
    ground: str | None = None
    probability: float | None = None


def cases_of(folder: Path) -> list[Case]:
    """Read the cases of a folder, in order of their names."""
    found = []
    for label in sorted(folder.glob("*/label.json")):
        told = json.loads(label.read_text(encoding="utf-8"))
        files = tuple(sorted(path for path in label.parent.rglob("*") if path.is_file() and path != label))
        ranks: Callable[[Any], Any] = lambda value: None if value is None else tuple(value)  # noqa: E731
        found.append(
            Case(label.parent.name, files, told["category"], tuple(told.get("accept", ())),
                 ranks(told.get("failing_ranks")), ranks(told.get("culprit_ranks")), told.get("url", ""),
                 told.get("cause", ""))
        )  # fmt: skip
    return found


def answer_of(case: Case) -> Answer:
    """Investigate one case; what breaks is an answer as well, and a wrong one."""
    import preflight.investigate.judge as judging
    from preflight.investigate.diagnose import diagnose

    told: list[tuple[str, float]] = []
    calibrated = judging.calibrated

    def kept(ground: Any, probability: float) -> float:
        told.append((ground, probability))
        return calibrated(ground, probability)

    judging.calibrated = kept
    try:
        incident = diagnose([str(path) for path in case.files]).incident
    except Exception as problem:  # a case that breaks it must not keep the others from being judged
        return Answer("broken", 0.0, None, (), None, "", f"{type(problem).__name__}: {problem}")
    finally:
        judging.calibrated = calibrated
    first = incident.first_failure
    rank = first.rank if first is not None else None
    if rank is None and len(incident.culprit.ranks) == 1:
        rank = incident.culprit.ranks[0]
    ground, probability = told[-1] if told else (None, None)
    return Answer(incident.category, incident.confidence, rank, tuple(incident.culprit.ranks), incident.signature,
                  incident.headline, ground=ground, probability=probability)  # fmt: skip


def first_observed(case: Case) -> int | None:
    """Return the rank that the last table of torchrun in a case names as the first failure it observed."""
    told = [rank for path in case.files for rank in _FIRST.findall(path.read_text(encoding="utf-8", errors="replace"))]
    return int(told[-1]) if told else None


def share(hits: Iterable[bool]) -> tuple[int, int]:
    """Return how many of them are true, and how many there are."""
    listed = list(hits)
    return sum(listed), len(listed)


def macro_f1(pairs: Sequence[tuple[str, str]]) -> float:
    """Return the mean F1 over the categories that are in the labels; pairs of label and answer."""
    scores = []
    for category in sorted({label for label, _ in pairs}):
        true = sum(label == answer == category for label, answer in pairs)
        said = sum(answer == category for _, answer in pairs)
        there = sum(label == category for label, _ in pairs)
        scores.append(2 * true / (said + there))
    return sum(scores) / len(scores) if scores else 0.0


def calibration_error(told: Sequence[tuple[float, bool]]) -> float:
    """Return the expected calibration error over ten bins of equal width; pairs of confidence and whether it was right."""
    total = 0.0
    for index in range(BINS):
        inside = [pair for pair in told if min(int(pair[0] * BINS), BINS - 1) == index]
        if inside:
            mean = sum(confidence for confidence, _ in inside) / len(inside)
            right = sum(hit for _, hit in inside) / len(inside)
            total += abs(mean - right) * len(inside)
    return total / len(told) if told else 0.0


def selective(told: Sequence[tuple[float, bool]], kept: float = SUREST) -> tuple[int, int]:
    """Return how many are right among the share that it is surest of."""
    ordered = sorted(told, key=lambda pair: -pair[0])
    return share(hit for _, hit in ordered[: round(len(ordered) * kept)])


def figures(cases: Sequence[Case], answers: Sequence[Answer]) -> dict[str, Any]:
    """Return every figure, as counts where it is a share."""
    both = list(zip(cases, answers, strict=True))
    failed = [(case, answer) for case, answer in both if case.category != "none"]
    told = [(answer.confidence, answer.category == case.category) for case, answer in both]
    shown = [(case, answer) for case, answer in both if case.failing_ranks]
    several = [(case, answer) for case, answer in both if case.culprit_ranks]
    nobody = [(case, answer) for case, answer in both if case.culprit_ranks == ()]
    agents = [(case, first) for case, _ in (*several, *nobody) if (first := first_observed(case)) is not None]
    return {
        "cases": len(cases),
        "strict": share(answer.category == case.category for case, answer in both),
        "lenient": share(answer.category in (case.category, *case.accept) for case, answer in both),
        "strict of failures": share(answer.category == case.category for case, answer in failed),
        "lenient of failures": share(answer.category in (case.category, *case.accept) for case, answer in failed),
        "macro F1": macro_f1([(case.category, answer.category) for case, answer in both]),
        "healthy called failures": share(
            answer.category not in ("none", "cannot-tell") for case, answer in both if case.category == "none"
        ),
        "failures called healthy": share(answer.category == "none" for case, answer in failed),
        "failing rank": share(answer.failing_rank in (case.failing_ranks or ()) for case, answer in shown),
        "culprit": share(set(answer.culprit_ranks) == set(case.culprit_ranks or ()) for case, answer in several),
        "nobody in particular": share(not answer.culprit_ranks for _, answer in nobody),
        "torchrun's own first": share({first} == set(case.culprit_ranks or ()) for case, first in agents),
        "calibration error": calibration_error(told),
        "right of the surest 60 %": selective(told),
        "broken": share(answer.error is not None for answer in answers),
    }


def _show(key: str, value: Any) -> str:
    if isinstance(value, tuple):
        hits, there = value
        return f"{key:26} {hits:4} of {there:4}" + (f"  {100 * hits / there:5.1f} %" if there else "")
    return f"{key:26} {value:.3f}" if isinstance(value, float) else f"{key:26} {value:4}"


def confusion(cases: Sequence[Case], answers: Sequence[Answer]) -> list[str]:
    """Return the confusion table as lines: labels down, answers across."""
    names = sorted({case.category for case in cases} | {answer.category for answer in answers})
    lines = [" " * 14 + " ".join(f"{name[:7]:>7}" for name in names)]
    for label in sorted({case.category for case in cases}):
        row = [
            sum(case.category == label and answer.category == name for case, answer in zip(cases, answers, strict=True))
            for name in names
        ]
        lines.append(f"{label:14}" + " ".join(f"{count or '.':>7}" for count in row))
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge a folder and print what came out."""
    parser = argparse.ArgumentParser(description="Judge the investigation on a folder of labelled logs.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--misses", action="store_true", help="list every case that was not judged as labelled")
    parser.add_argument("--json", type=Path, default=None, help="write label and answer of every case to this file")
    given = parser.parse_args(arguments)
    cases = cases_of(given.folder)
    if not cases:
        print(f"no labelled cases in {given.folder}", file=sys.stderr)
        return 2
    answers = [answer_of(case) for case in cases]
    for key, value in figures(cases, answers).items():
        print(_show(key, value))
    print()
    print("\n".join(confusion(cases, answers)))
    if given.misses:
        print()
        for case, answer in zip(cases, answers, strict=True):
            wrong = answer.category != case.category
            rank = case.failing_ranks and answer.failing_rank not in case.failing_ranks
            culprit = case.culprit_ranks and set(answer.culprit_ranks) != set(case.culprit_ranks)
            if wrong or rank or culprit:
                print(f"{case.name}: {case.category} {case.accept} -> {answer.category} {answer.confidence:.2f} "
                      f"[{answer.signature}] rank {case.failing_ranks} -> {answer.failing_rank}, culprit "
                      f"{case.culprit_ranks} -> {answer.culprit_ranks} {answer.error or ''}")  # fmt: skip
    if given.json is not None:
        rows = [
            {"name": case.name, "label": case.category, "accept": list(case.accept), "answer": answer.category,
             "confidence": answer.confidence, "signature": answer.signature, "ground": answer.ground,
             "probability": answer.probability}
            for case, answer in zip(cases, answers, strict=True)
        ]  # fmt: skip
        given.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
