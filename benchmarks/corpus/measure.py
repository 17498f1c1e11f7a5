"""Check the corpus and say how quiet the rules are on healthy scripts, and how many real bugs they find.

python benchmarks/corpus/measure.py TARGET scripts     every finding, with what a reader said of it
python benchmarks/corpus/measure.py TARGET heldout     the same on scripts that nobody looked at while rules were written
python benchmarks/corpus/measure.py TARGET heldout2    the same on a second such list, drawn after the rules were written
python benchmarks/corpus/measure.py TARGET heldout3    the same on a third, drawn after the second was corrected
python benchmarks/corpus/measure.py TARGET heldout4    the same on a fourth, drawn after the third was corrected
python benchmarks/corpus/measure.py TARGET heldout5    the same on a fifth, drawn after the fourth was corrected
python benchmarks/corpus/measure.py TARGET heldout6    the same on a sixth, drawn after the fifth was corrected
python benchmarks/corpus/measure.py TARGET heldout7    the same on a seventh, drawn at random after the sixth was corrected
python benchmarks/corpus/measure.py TARGET heldout8    the same on an eighth, of many frameworks, after the seventh was corrected
python benchmarks/corpus/measure.py TARGET heldout9    the same on a ninth, drawn after the eighth was corrected
python benchmarks/corpus/measure.py TARGET heldout10   the same on a tenth, drawn after the ninth was corrected
python benchmarks/corpus/measure.py TARGET heldout11   the same on an eleventh, drawn after the tenth was corrected
python benchmarks/corpus/measure.py TARGET heldout12   the same on a twelfth, judged after the eleventh was corrected
python benchmarks/corpus/measure.py TARGET heldout13   the same on a thirteenth, drawn after the twelfth was corrected
python benchmarks/corpus/measure.py TARGET heldout14   the same on a fourteenth, drawn after the thirteenth was corrected
python benchmarks/corpus/measure.py TARGET bugs        found before the fix, and silent after it

TARGET is the folder that materialise.py wrote. What a reader said stands in readings.toml.
"""

from __future__ import annotations

import collections
import sys
from pathlib import Path
from typing import Any

try:
    import tomllib
except ModuleNotFoundError:
    import tomli as tomllib

from materialise import LISTS

from preflight.check.asked import Options
from preflight.check.examine import examine_named
from preflight.check.selection import Selection
from preflight.errors import PreflightError
from preflight.vocabulary.finding import Finding
from preflight.vocabulary.report import Report

HERE = Path(__file__).parent


def entries(name: str) -> list[dict[str, Any]]:
    """The entries of a manifest."""
    table = tomllib.loads((HERE / f"{name}.toml").read_text(encoding="utf-8"))
    return next(value for value in table.values() if isinstance(value, list))


def checked(path: Path, persona: str) -> Report | str:
    """The report of a script, or why there is none."""
    try:
        return examine_named(str(path), Options(), Selection(persona=persona))  # type: ignore[arg-type]
    except PreflightError as error:
        return str(error)


def key_of(entry: dict[str, Any], finding: Finding) -> str:
    """What a reading is filed under: the script, the rule, and the place."""
    name = Path(finding.location.path or "").name
    return f"{entry['repository']}/{entry['path']} {finding.code} {name}:{finding.location.line}"


def quiet(target: Path, manifest: str) -> None:
    """Every finding of the regular persona on the scripts of a manifest."""
    said = {r["finding"]: r for r in entries("readings")}
    verdicts: collections.Counter[str] = collections.Counter()
    marks: dict[str, collections.Counter[str]] = {s: collections.Counter() for s in ("error", "warning")}
    loud, sized, scripts = 0, 0, 0
    folder = target / ("repos" if manifest == "scripts" else manifest)
    for entry in entries(manifest):
        path = folder / entry["repository"].replace("/", "+") / entry["path"]
        report = checked(path, "regular")
        if isinstance(report, str):
            print(f"{entry['repository']}/{entry['path']}: {report[:160]}")
            verdicts["not read"] += 1
            continue
        scripts += 1
        verdicts[report.verdict] += 1
        fact = report.facts.get("model.parameters")
        sized += fact is not None and fact.known
        loud += len(report.findings) > 3
        print(f"{report.verdict:<8}{entry['repository']}/{entry['path']}")
        for finding in report.findings:
            mark = said.get(key_of(entry, finding), {})
            marks[finding.severity][mark.get("reader", "not read")] += 1
            print(
                f"    {mark.get('reader', 'not read'):<9}{finding.severity} {key_of(entry, finding).split(' ', 1)[1]}: {finding.message[:110]}"
            )
            if mark.get("note"):
                print(f"             {mark['note']}")
    print(
        f"\n{scripts} scripts, verdicts {dict(verdicts)}, {loud} with more than three findings, {sized} with an exact parameter count"
    )
    for severity, counts in marks.items():
        total = sum(counts.values())
        print(f"{severity}s: {total}" + "".join(f", {n} {mark}" for mark, n in sorted(counts.items())))


def bugs(target: Path) -> None:
    """For each real fix: whether the rule that names the bug speaks before it and is silent after it."""
    folders = sorted((target / "bugs").iterdir())
    counts: collections.Counter[str] = collections.Counter()
    for entry in entries("bugs"):
        folder = next(f for f in folders if f.name == entry["name"])
        sides = [checked(folder / side / entry["script"], "audit") for side in ("before", "after")]
        if any(isinstance(side, str) for side in sides):
            outcome, seen = "not read", ""
        else:
            before, after = ([f for f in side.findings if f.code == entry["code"]] for side in sides)  # type: ignore[union-attr]
            outcome = "found" if len(before) > len(after) else "found in both" if before else "missed"
            seen = f"{before[0].severity}/{before[0].confidence} line {before[0].location.line}" if before else ""
        shown = "no rule names it" if entry["code"] == "none" else outcome
        counts[shown] += 1
        print(f"{shown:<17}{entry['code']:<8}{entry['name']:<42}{seen}")
    print(f"\n{sum(counts.values())} fixes: " + ", ".join(f"{n} {what}" for what, n in counts.most_common()))


def main() -> int:
    """Measure one list."""
    if len(sys.argv) != 3 or sys.argv[2] not in LISTS:
        print(__doc__, file=sys.stderr)
        return 2
    target = Path(sys.argv[1])
    if sys.argv[2] == "bugs":
        bugs(target)
    else:
        quiet(target, sys.argv[2])
    return 0


if __name__ == "__main__":
    sys.exit(main())
