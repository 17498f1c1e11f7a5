"""Goes through a checklist: checks what can be checked, takes a person's word where that is allowed, and judges."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping, Sequence

from preflight.errors import CatalogError
from preflight.investigate.checklist.checks import Seen, check_of
from preflight.vocabulary.checklist import (
    Attestation,
    Checklist,
    CommandCheck,
    FactCheck,
    FunctionCheck,
    Item,
    PersonCheck,
    Result,
    RulesCheck,
)
from preflight.vocabulary.finding import Scalar
from preflight.vocabulary.report import Report, Verdict

_PLACE = re.compile(r"\{(\w+)\}")


def go_through(
    checklist: Checklist,
    *,
    settings: Mapping[str, Scalar],
    attested: Mapping[str, Attestation],
    read_script: Callable[[], Report | None],
    only: Sequence[str] = (),
    now: float | None = None,
) -> tuple[Result, ...]:
    """Check the items of a list.

    Args:
        checklist: Which.
        settings: What the list needs to know, by name.
        attested: A person's word, by item.
        read_script: Returns the report of ``preflight check`` on the script, or None where none was given.
        only: Check these alone; the others are not run.
        now: Seconds since 1970.
    """
    moment = time.time() if now is None else now
    known = {name: one.default for name, one in checklist.settings.items()} | dict(settings)
    results = []
    for item in checklist.items:
        if only and item.id not in only:
            results.append(_result(item, Seen("not-run", "left out"), None))
            continue
        seen = _checked(item, known, read_script)
        word = attested.get(item.id)
        results.append(_with_word(item, seen, word, moment))
    return tuple(results)


def verdict_of(results: Sequence[Result]) -> Verdict:
    """NO-GO where something critical fails, UNKNOWN where something critical was not checked, GO otherwise."""
    critical = [one.standing for one in results if one.critical]
    if "fail" in critical:
        return "NO-GO"
    return "UNKNOWN" if any(standing in ("unknown", "not-run") for standing in critical) else "GO"


def _checked(item: Item, settings: Mapping[str, Scalar], read_script: Callable[[], Report | None]) -> Seen:
    check = item.check
    try:
        if isinstance(check, FunctionCheck):
            options = {name: _filled(value, settings) for name, value in check.options.items()}
            return check_of(check.name)(**options)
        if isinstance(check, CommandCheck):
            return _command(check, settings)
    except _NotSaid as missing:
        return Seen("unknown", f"{missing} was not said: --set {missing}=VALUE")
    except CatalogError:
        raise
    except Exception as error:  # a check that breaks has not passed
        return Seen("unknown", f"the check itself failed: {type(error).__name__}: {error}")
    if isinstance(check, PersonCheck):
        return Seen("not-run", f"somebody has to vouch for it: {check.evidence}")
    report = read_script()
    if report is None:
        return Seen("not-run", "no script was given: --script FILE")
    return _rules(check, report) if isinstance(check, RulesCheck) else _fact(check, report)


class _NotSaid(Exception):
    """A setting that was not given and has no default."""


def _filled(value: Scalar, settings: Mapping[str, Scalar]) -> Scalar:
    """Put settings in place of names in braces; a value that is one name alone keeps its type."""
    if not isinstance(value, str):
        return value
    for name in _PLACE.findall(value):
        if settings.get(name) is None:
            raise _NotSaid(name)
        if value == "{" + name + "}":
            return settings[name]
        value = value.replace("{" + name + "}", str(settings[name]))
    return value


def _command(check: CommandCheck, settings: Mapping[str, Scalar]) -> Seen:
    import tempfile

    from preflight.errors import UsageError
    from preflight.investigate.bisect.running import Launch, run

    words = tuple(str(_filled(word, settings)) for word in check.run)
    with tempfile.TemporaryDirectory(prefix="preflight-") as folder:
        log = os.path.join(folder, "log")
        try:
            ended = run(Launch(argv=words), log, check.seconds)
        except UsageError as error:
            return Seen("unknown", str(error))
        with open(log, encoding="utf-8", errors="replace") as file:
            text = file.read(1_000_000)
    shown = " ".join(words)
    if ended.code is None:
        return Seen("fail", f"{shown}: did not end within {check.seconds:g} s")
    if check.code is not None and ended.code != check.code:
        return Seen("fail", f"{shown}: exit code {ended.code}: {_last(text)}")
    if check.expects is not None and re.search(check.expects, text) is None:
        return Seen("fail", f"{shown}: does not print {check.expects}")
    if check.refuses is not None and (found := re.search(check.refuses, text)) is not None:
        return Seen("fail", f"{shown}: prints {found.group(0)!r}")
    return Seen("pass", f"{shown}: {_last(text) or f'exit code {ended.code}'}")


def _last(text: str) -> str:
    return next((line.strip()[:200] for line in reversed(text.splitlines()) if line.strip()), "")


def _rules(check: RulesCheck, report: Report) -> Seen:
    """A rule that could not be evaluated has not passed."""
    found = [one for one in report.findings if one.rule in check.rules or one.code in check.rules]
    if found:
        first = found[0]
        at = f"{first.location.path}:{first.location.line}: " if first.location.path else ""
        return Seen("fail", f"{at}{first.message}")
    open_ = [one for one in report.not_evaluated if one.rule in check.rules or one.code in check.rules]
    if open_:
        return Seen("unknown", f"{open_[0].rule} could not be evaluated: {open_[0].reason}")
    if report.verdict == "UNKNOWN" and not report.facts:
        return Seen("unknown", "no training could be recognised in the script")
    return Seen(
        "pass",
        f"{len(check.rules)} {'rule finds' if len(check.rules) == 1 else 'rules find'} nothing: {', '.join(check.rules)}",
    )


def _fact(check: FactCheck, report: Report) -> Seen:
    for name, values in check.only_if.items():
        about = report.facts.get(name)
        if about is None or about.value is None:
            return Seen("unknown", f"{name} could not be read in the script")
        if about.value not in values:
            return Seen("pass", f"does not apply: {name} is {about.value}")
    fact = report.facts.get(check.name)
    if fact is None or fact.value is None:
        return Seen(
            "unknown",
            f"{check.name} could not be read: {fact.reason if fact is not None and fact.reason else 'not known'}",
        )
    value = fact.value
    wrong = (
        (check.equals is not None and value != check.equals)
        or (check.at_least is not None and (not isinstance(value, (int, float)) or value < check.at_least))
        or (check.at_most is not None and (not isinstance(value, (int, float)) or value > check.at_most))
    )
    return Seen("fail" if wrong else "pass", f"{check.name} is {value}")


def _with_word(item: Item, seen: Seen, word: Attestation | None, now: float) -> Result:
    """A person's word counts for what only a person can say, or where the check could not be run; never against a fail."""
    allowed = isinstance(item.check, PersonCheck) or item.person_may
    if word is None or seen.standing not in ("unknown", "not-run") or not allowed:
        return _result(item, seen, None)
    if word.until < now:
        return _result(item, Seen(seen.standing, f"{word.by} vouched for it, and that has expired; {seen.text}"), word)
    return _result(item, Seen("pass", f"{word.by}: {word.evidence}"), word)


def _result(item: Item, seen: Seen, word: Attestation | None) -> Result:
    bad = seen.standing in ("fail", "warn")
    return Result(
        item=item.id, standing=seen.standing, text=seen.text, critical=item.critical, owner=item.owner, attested=word,
        remedies=item.remedies if bad else (),
    )  # fmt: skip


__all__ = ["go_through", "verdict_of"]
