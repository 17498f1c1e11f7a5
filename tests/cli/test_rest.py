"""Where a text only counts something, it names an option or a command that there is to show the rest."""

from __future__ import annotations

from collections.abc import Iterator

import click
import msgspec
import pytest
from tests.report.incidents import report

from preflight.cli.main import preflight
from preflight.cli.parts.live import alarm_text
from preflight.cli.parts.writing import writing_of
from preflight.report.render import render
from preflight.vocabulary.finding import Location
from preflight.vocabulary.incident import Incident
from preflight.vocabulary.invariant import Violation
from preflight.vocabulary.report import Report


def _commands(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    """Yield all commands by their words. A context asked for its path would fix the options for help, for good."""
    if not isinstance(command, click.Group):
        yield path, command
        return
    context = click.Context(command)
    inner = [command.get_command(context, name) for name in command.list_commands(context)]
    for one in [*inner, getattr(command, "default", None)]:
        if one is not None:
            yield from _commands(one, f"{path} {one.name}")


WITH_FORMAT = {
    path: command
    for path, command in _commands(preflight, "preflight")
    if any("--format" in option.opts for option in command.params)
}


def _long() -> Report:
    """An incident of which a text shows a part only."""
    one = report().incident
    assert isinstance(one, Incident)
    return msgspec.structs.replace(report(), incident=msgspec.structs.replace(one, timeline=one.timeline * 40))


@pytest.mark.parametrize("path", sorted(WITH_FORMAT))
def test_the_option_that_shows_the_rest_is_one_of_the_command(path: str) -> None:
    options = {option.name for option in WITH_FORMAT[path].params}
    given = dict.fromkeys(("format_", "output", "width")) | {"quiet": False, "no_color": True}
    look = writing_of(given | ({"verbose": False} if "verbose" in options else {}))
    text = render(_long(), "text", rest=look.rest)
    assert "more (--" in text
    assert ("--verbose" in text) == ("verbose" in options)


def test_an_alarm_of_a_run_names_the_command_that_shows_the_rest() -> None:
    group = [
        Violation(
            rule="r", code="r", severity="error", confidence="certain", message=f"does not hold {number}",
            location=Location(), relation="r", invariant=f"r{number}", first_step=1, group=1,
        )
        for number in range(12)
    ]  # fmt: skip
    text = " ".join(alarm_text(1, group, False, "preflight monitor check traces/1 --verbose").split())
    assert "and 3 others (preflight monitor check traces/1 --verbose)" in text
    assert "JSON" not in text
