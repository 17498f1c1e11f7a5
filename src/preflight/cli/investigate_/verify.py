"""``preflight investigate verify``: is it fixed, and is nothing worse for it?"""

from __future__ import annotations

from typing import Any

import click

from preflight.cli.parts.options import output

_HELP = """Say whether a fix fixed it: the problem gone with enough exposure, and no metric worse by its margin.

\b
preflight investigate verify --before old.log --after new.log
preflight investigate verify --trials trials.csv --metric mfu:higher
preflight investigate verify --run-before 'python old.py' --run-after 'python new.py' -n 5

Exit codes: 0 FIXED, 1 NOT_FIXED or REGRESSION, 2 misuse, 3 INCONCLUSIVE, with how much more is needed.
"""


@click.command("verify", help=_HELP, short_help="Say whether a fix fixed it, and whether anything is worse for it.")
@click.option(
    "--before",
    multiple=True,
    metavar="PATH",
    help="A run before the change: its log, folder or metric file; or a table of trials.",
)
@click.option(
    "--after", multiple=True, metavar="PATH", help="The same after it. Both options may be given again and again."
)
@click.option(
    "--trials",
    "table",
    metavar="FILE",
    help="One table (CSV, JSON) of trials of both sides, told apart by a column 'side'.",
)
@click.option("--run-before", metavar="COMMAND", help="Make the trials: the command line before the change.")
@click.option("--run-after", metavar="COMMAND", help="The command line after it.")
@click.option(
    "-n",
    "--count",
    type=click.IntRange(min=1),
    metavar="N",
    default=3,
    show_default=True,
    help="How often each command is run, in turn.",
)
@click.option(
    "--deadline",
    type=click.FloatRange(min=0, min_open=True),
    default=3600.0,
    show_default=True,
    metavar="SECONDS",
    help="What a trial may take.",
)
@click.option("--keep", metavar="DIR", help="Where the logs of the trials go (default: a folder that is removed).")
@click.option(
    "--problem",
    metavar="NAME",
    help="The signature or category that has to be gone, or a metric that has to be better.",
)
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    metavar="NAME:DIRECTION",
    help="Compare NAME; DIRECTION is higher, lower or equal, then :3% for its margin.",
)
@click.option("--margin", default="3%", show_default=True, metavar="SHARE", help="How much worse a metric may be.")
@click.option(
    "--unit", type=click.Choice(["runs", "steps", "hours"]), help="What the absence of the problem is counted in."
)
@click.option(
    "--rate",
    type=click.FloatRange(min=0, min_open=True),
    metavar="RATE",
    help="How often it failed before, by unit, where you know.",
)
@click.option("--every-run", is_flag=True, help="The runs before are all that were made, not only those that failed.")
@click.option(
    "--tolerate",
    type=click.FloatRange(min=0, max=1, min_open=True, max_open=True),
    metavar="RATE",
    help="Test in sequence against this rate of failures, which would be accepted.",
)
@click.option(
    "--alpha",
    type=click.FloatRange(min=0.001, max=0.2),
    metavar="SHARE",
    default=0.05,
    show_default=True,
    help="How often FIXED or REGRESSION may be wrong.",
)
@click.option(
    "--warm-up",
    type=click.IntRange(min=0),
    metavar="STEPS",
    help="Steps at the beginning of a run that are not compared.",
)
@output
def command(**given: Any) -> int:
    """Say whether a fix fixed it."""
    from preflight.check.files.source_lines import SourceLines
    from preflight.cli.parts.writing import EXIT_CODES, answer, writing_of
    from preflight.investigate.verify.directions import Wanted, share_of
    from preflight.investigate.verify.problem import Asked
    from preflight.investigate.verify.verdict import report_of, verify

    look = writing_of(given)
    asked = Asked(given["problem"], given["unit"], given["rate"], given["every_run"], given["tolerate"], given["alpha"])
    wanted = Wanted(given["metrics"], share_of(given["margin"], "--margin"))
    before, after, tabled = _trials(given, look, asked)
    if asked.what is not None:
        _known(asked.what, [*before, *after], wanted.directions)
    found = verify(before, after, asked=asked, wanted=wanted, warm_up=given["warm_up"], all_metrics=tabled)
    inputs: dict[str, object] = {
        "subject": _subject(given),
        "before": _named(before),
        "after": _named(after),
    }
    report = report_of(found, inputs)
    answer(report, look, SourceLines())
    return EXIT_CODES[report.verdict]


def _known(problem: str, trials: list[Any], metrics: Any) -> None:
    """Refuse a problem that nothing has the name of: it would be absent for ever.

    Raises:
        UsageError: It is no signature, category or metric, and no run failed with it.
    """
    from typing import get_args

    from preflight.catalog.signature_files import signature_names
    from preflight.cli.parts.recording import catalog
    from preflight.errors import UsageError, nearest
    from preflight.vocabulary.signature import Category

    seen = {what for one in trials for what in one.what}
    names = {*get_args(Category), *seen, *metrics, "hang", "timeout"}
    if problem in names or problem.startswith(("exception.", "exit-", "signal-")):
        return
    names |= set(signature_names(tuple(catalog())))
    if problem not in names:
        near = nearest(problem, names)
        raise UsageError(
            f"--problem {problem}: no signature, category or compared metric is called so",
            f"did you mean {near}?" if near else "preflight list signatures; a metric: --metric NAME:DIRECTION, too",
        )


def _named(trials: list[Any]) -> list[str] | str:
    """The names of the trials; those of the rows of one table in short."""
    names = [str(one.name) for one in trials]
    files = {name.rpartition(" ")[0] for name in names}
    numbers = [name.rpartition(" ")[2] for name in names]
    if len(names) > 1 and len(files) == 1 and "" not in files and all(one.isdigit() for one in numbers):
        return f"rows {', '.join(numbers)} of {files.pop()}"
    return names


def _trials(given: dict[str, Any], look: Any, asked: Any) -> tuple[list[Any], list[Any], bool]:
    """The trials, and whether they come from tables, whose every metric is meant."""
    from preflight.errors import UsageError
    from preflight.investigate.verify.trials import read_table, read_trials

    ways = [
        bool(given["before"] or given["after"]),
        bool(given["table"]),
        bool(given["run_before"] or given["run_after"]),
    ]
    if not any(ways):
        raise UsageError(
            "nothing to compare is given", "--before and --after, --trials, or --run-before and --run-after"
        )
    before, after = read_trials(given["before"], "before"), read_trials(given["after"], "after")
    if given["table"]:
        tabled = read_table(given["table"])
        before, after = before + tabled[0], after + tabled[1]
    if ways[2]:
        made = _made(given, look, asked)
        before, after = before + made[0], after + made[1]
    if not after:
        raise UsageError("no trial after the change", "--after, or a table with a column 'side'")
    if not before and given["rate"] is None:
        raise UsageError("no trial before the change", "--before, or how often it failed: --rate")
    return (
        before,
        after,
        bool(given["table"]) or any(path.endswith((".csv", ".json", ".jsonl")) for path in given["after"]),
    )


def _made(given: dict[str, Any], look: Any, asked: Any) -> tuple[list[Any], list[Any]]:
    import os
    import tempfile

    from preflight.cli.parts.writing import remark
    from preflight.investigate.verify.problem import judge_problem
    from preflight.investigate.verify.running import make_trials

    commands = {side: line for side in ("before", "after") if (line := given[f"run_{side}"])}

    def enough(before: list[Any], after: list[Any]) -> bool:
        if asked.tolerated is None or not after:
            return False
        state = judge_problem(before, after, asked)
        return state is not None and state.verdict != "undecided"

    with tempfile.TemporaryDirectory(prefix="preflight-verify-") as folder:
        kept = given["keep"] or folder
        os.makedirs(kept, exist_ok=True)
        return make_trials(
            commands, given["count"], given["deadline"], kept, say=lambda text: remark(text, look), enough=enough
        )


def _subject(given: dict[str, Any]) -> str:
    if given["table"]:
        return str(given["table"])
    return " -> ".join(", ".join(given[side]) or str(given[f"run_{side}"] or "") for side in ("before", "after")).strip(
        " ->"
    )
