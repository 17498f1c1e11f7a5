"""One check, from a file to a report."""

from __future__ import annotations

from pathlib import Path

import msgspec

from preflight.check.context import Context
from preflight.check.evaluate import evaluate_rules
from preflight.check.registry import load_rules
from preflight.source.reading import Reading, read
from preflight.source.script import Script, read_script
from preflight.vocabulary.finding import Persona
from preflight.vocabulary.report import SCHEMA, Report, Tool


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What a person may say about a check."""

    gpu: str | None = None
    gpu_memory: float | None = None
    gpus: int | None = None
    launch: str | None = None
    arguments: tuple[str, ...] | None = None
    persona: Persona = "regular"


def check_text(path: Path, options: Options) -> Report:
    """Check one file."""
    return check_script(read_script(path), options)


def check_script(script: Script, options: Options) -> Report:
    """Check one parsed script."""
    reading: Reading = read(script, options.arguments)
    context = Context(reading, {})
    findings, missing = evaluate_rules(context, load_rules())
    return Report(
        schema=SCHEMA, command="check", tool=Tool("preflight", "0.1.0"), verdict="GO", findings=tuple(findings),
        not_evaluated=tuple(missing),
    )
