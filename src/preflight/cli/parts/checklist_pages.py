"""Checklists on the command line: gone through, vouched for, proposed from incidents."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from preflight.catalog.checklist_files import load_checklist
from preflight.cli.parts.recording import catalog
from preflight.cli.parts.writing import EXIT_CODES, Writing, put, remark
from preflight.errors import PreflightError, UsageError, nearest
from preflight.investigate.checklist.run import go_through, verdict_of
from preflight.investigate.checklist.words import attest, read_words, text_of
from preflight.vocabulary.checklist import Checklist, PersonCheck, Result
from preflight.vocabulary.finding import Scalar
from preflight.vocabulary.report import Report

SCHEMA = "preflight.checklist/1"
_MARKS = {"pass": "pass", "fail": "FAIL", "warn": "warn", "unknown": "?", "not-run": "-"}


def gone_through(name: str, given: Mapping[str, Any], look: Writing) -> int:
    """Go through a list and judge."""
    checklist = load_checklist(name, catalog())
    _known(given["only"], [item.id for item in checklist.items], "item")
    results = go_through(
        checklist, settings=_settings(given["settings"], checklist), attested=read_words(_state(checklist, given)),
        read_script=_script(given), only=given["only"],
    )  # fmt: skip
    verdict = verdict_of(results)
    if look.format == "json":
        import msgspec

        from preflight.report.parts.plain import encode

        put(encode({
            "schema": SCHEMA, "checklist": checklist.id, "title": checklist.title, "verdict": verdict, "node": _node(),
            "results": msgspec.to_builtins(results),
        }), look)  # fmt: skip
    elif look.format in ("text", "markdown"):
        put((_markdown if look.format == "markdown" else _text)(checklist, results, verdict, look.width), look)
    else:
        from preflight.check.files.source_lines import SourceLines
        from preflight.cli.parts.checklist_report import report_of
        from preflight.cli.parts.writing import answer

        answer(report_of(checklist, results, verdict, _summary(results)), look, SourceLines())
    return EXIT_CODES[verdict]


def _node() -> str:
    import platform

    return platform.node()


def _known(words: Sequence[str], there: Sequence[str], what: str) -> None:
    known = list(dict.fromkeys(there))
    for word in words:
        if word not in known:
            near = nearest(word, known)
            raise UsageError(
                f"there is no {what} {word!r}", f"did you mean {near}?" if near else f"one of {', '.join(known)}"
            )


def _settings(words: Sequence[str], checklist: Checklist) -> dict[str, Scalar]:
    found: dict[str, Scalar] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not value:
            raise UsageError(f"--set {word}: is not NAME=VALUE", "for example: --set checkpoint_folder=/ckpt")
        found[name] = _number(value)
    _known(list(found), [*checklist.settings, *_places(checklist)], "setting")
    for name, said in found.items():
        setting = checklist.settings.get(name)
        if setting is not None and isinstance(setting.default, int | float) and isinstance(said, str):
            raise UsageError(f"--set {name}={said}: is not a number", setting.what)
    return found


def _places(checklist: Checklist) -> list[str]:
    """Names in braces that items use without declaring them."""
    import re

    return sorted(set(re.findall(r"\{(\w+)\}", str([item.check for item in checklist.items]))))


def _number(value: str) -> Scalar:
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value


def _script(given: Mapping[str, Any]) -> Callable[[], Report | None]:
    """Read the script once, and only when an item asks for it."""
    read: list[Report | None] = []

    def report() -> Report | None:
        if not read:
            read.append(_checked(given) if given["script"] else None)
        return read[0]

    return report


def _checked(given: Mapping[str, Any]) -> Report:
    from pathlib import Path

    from preflight.check.asked import Options
    from preflight.check.session import check_script
    from preflight.source.script import read_script

    options = Options(gpu=given["gpu"], gpus=given["gpus"], catalog=catalog())
    return check_script(read_script(Path(given["script"])), options)


def _state(checklist: Checklist, given: Mapping[str, Any]) -> str:
    return str(given["state"] or os.path.join(".preflight", "checklists", f"{checklist.id}.json"))


def vouch(name: str, given: Mapping[str, Any], look: Writing) -> int:
    """Keep a person's word."""
    from preflight.check.files.text_file import write_whole

    checklist = load_checklist(name, catalog())
    word = attest(checklist, given["attest"], given["by"] or "", given["evidence"] or "")
    path = _state(checklist, given)
    words = {**read_words(path), word.item: word}
    try:
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    except OSError as error:
        raise PreflightError(f"{path}: cannot be written: {error.strerror or error}") from None
    write_whole(path, text_of(checklist.id, words))
    until = time.strftime("%Y-%m-%d", time.localtime(word.until))
    remark(f"{word.by} vouches for {word.item} until {until}; kept in {path}", look)
    return 0


def shown(name: str, look: Writing) -> int:
    """Show the items."""
    checklist = load_checklist(name, catalog())
    if look.format == "json":
        import msgspec

        from preflight.report.parts.plain import encode

        put(encode({"schema": SCHEMA, **msgspec.to_builtins(checklist)}), look)
        return 0
    lines = [checklist.title, ""]
    for item in checklist.items:
        how = "a person" if isinstance(item.check, PersonCheck) else type(item.check).__struct_config__.tag
        lines.append(f"{item.id}{' (critical)' if item.critical else ''}: {item.title}")
        lines.append(f"    by {how}{', or a person' if item.person_may else ''}. {item.why}")
    if checklist.settings:
        lines += ["", "It needs to know:"]
        for key, one in checklist.settings.items():
            lines.append(f"    --set {key}=...  {one.what}{'' if one.default is None else f' (else {one.default})'}")
    put("\n".join(lines) + "\n", look)
    return 0


def _summary(results: Sequence[Result]) -> str:
    count = {standing: sum(one.standing == standing for one in results) for standing in _MARKS}
    open_ = sum(one.critical and one.standing in ("unknown", "not-run") for one in results)
    told = ", ".join(f"{n} {word}" for word, n in (("pass", count["pass"]), ("fail", count["fail"]), ("warn", count["warn"]),
                                                    ("not checked", count["unknown"] + count["not-run"])) if n)  # fmt: skip
    return told + (f"; {open_} of these critical" if open_ else "")


def _text(checklist: Checklist, results: Sequence[Result], verdict: str, width: int) -> str:
    import textwrap

    lines = [f"{verdict}  {checklist.title}: {_summary(results)}", ""]
    names = max(len(one.item) for one in results)
    for area in dict.fromkeys(item.area for item in checklist.items):
        for item, one in zip(checklist.items, results, strict=True):
            if item.area == area:
                head = f"{_MARKS[one.standing]:<5}{'!' if item.critical else ' '} {one.item:<{names}}  "
                lines += textwrap.wrap(one.text, max(width, 60), initial_indent=head, subsequent_indent=" " * 7,
                                       break_long_words=False, break_on_hyphens=False)  # fmt: skip
                if one.remedies:
                    lines.append(f"       preflight investigate fix {one.remedies[0]}")
    return "\n".join([*lines, "", "! critical"]) + "\n"


def _markdown(checklist: Checklist, results: Sequence[Result], verdict: str, width: int) -> str:
    lines = [f"# {checklist.title}: {verdict}", "", f"{_summary(results)}.", ""]
    for area in dict.fromkeys(item.area for item in checklist.items):
        lines += [f"## {area.capitalize()}", "", "| | item | critical | |", "|---|---|---|---|"]
        for item, one in zip(checklist.items, results, strict=True):
            if item.area == area:
                text = one.text.replace("|", "\\|")
                lines.append(f"| {_MARKS[one.standing]} | {item.title} | {'yes' if item.critical else ''} | {text} |")
        lines.append("")
    return "\n".join(lines)


def proposed(paths: Sequence[str], target: str | None, quiet: bool) -> int:
    """Write a list from incidents."""
    from preflight.cli.parts.fixes import read_incident
    from preflight.investigate.checklist.proposed import as_toml, proposed_items

    items = proposed_items([read_incident(path) for path in paths], catalog())
    text = as_toml("Not again", items, [f"incident reports: {', '.join(os.path.basename(path) for path in paths)}"])
    if target is not None and not target.endswith(".toml"):
        raise UsageError(f"-o {target}: a checklist is a .toml file")
    look = Writing(format="text", output=target, quiet=quiet)
    put(text, look)
    if target is not None:
        remark(
            f"{len(items)} item{'s' if len(items) != 1 else ''}; preflight investigate checklist {target} goes through them",
            look,
        )
    return 0


__all__ = ["gone_through", "proposed", "shown", "vouch"]
