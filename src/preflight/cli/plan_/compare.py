"""``preflight plan compare``: the same request on several GPUs or clusters."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

from preflight.cli.parts.grouped import GroupedCommand
from preflight.cli.parts.options import output
from preflight.cli.parts.planning import settings_options
from preflight.errors import UsageError

if TYPE_CHECKING:
    from preflight.plan.inputs.settings import Settings
    from preflight.plan.request import Request

_MANY = re.compile(r"(\d+)\s*[xX*]\s*(.+)")
_EXAMPLE = "preflight plan compare h100 b200 transformer 70 64 --gpus 8 --strategy fsdp"


@click.command("compare", cls=GroupedCommand)
@click.argument("words", nargs=-1, metavar="CLUSTER... [[MODEL_TYPE] SIZE_BILLIONS BATCH]")
@settings_options
@output
@click.option("-v", "--verbose", is_flag=True, help="Also how every number came about.")
def command(words: tuple[str, ...], **given: Any) -> int:
    """Plan the same run on several GPUs or clusters, side by side.

    A CLUSTER is a GPU (h100), so many of them (16xA100), or a YAML file with the sections hardware and cluster.
    What follows them, and the options, are those of a plan; --gpus is for clusters that say no number.
    """
    from preflight.check.files.source_lines import SourceLines
    from preflight.cli.parts.progress import following
    from preflight.cli.parts.writing import EXIT_CODES, answer, writing_of
    from preflight.plan.compare import compared_report

    look = writing_of(given)
    named, rest = _split(words)
    if given.get("hardware__gpu_type"):
        raise UsageError("--gpu, and the GPUs to compare", f"name them all before the model: {_EXAMPLE}")
    if len(named) < 2:
        raise UsageError("a comparison needs at least two clusters", _EXAMPLE)
    requests = [_request(cluster, rest, given) for cluster in named]
    with following(look) as say:
        report = compared_report(requests, say)
    answer(report, look, SourceLines())
    return EXIT_CODES[report.verdict]


def _split(words: tuple[str, ...]) -> tuple[list[str], tuple[str, ...]]:
    """Return the clusters, and the words of the plan behind them: the first model type or number ends the clusters."""
    from preflight.plan.inputs.form import TYPES
    from preflight.plan.inputs.settings import as_number

    for at, word in enumerate(words):
        if word.lower().replace("-", "_") in TYPES or as_number(word) is not None:
            return list(words[:at]), words[at:]
    return list(words), ()


def _request(cluster: str, words: tuple[str, ...], given: dict[str, Any]) -> Request:
    """Return the request on one of the clusters."""
    from preflight.cli.parts.planning import asked

    return asked(words, given, above=_described(cluster))


def _described(cluster: str) -> Settings:
    """Return a cluster's name as settings.

    Raises:
        UsageError: The file says nothing of hardware.
    """
    from preflight.plan.inputs.settings import Settings, said

    if cluster.endswith((".yaml", ".yml")):
        from preflight.plan.inputs.document import read_settings

        read = read_settings(cluster)
        kept = {path: value for path, value in read.said.items() if path.startswith(("hardware.", "cluster."))}
        if not kept:
            raise UsageError(f"{cluster} describes no cluster", "it has the sections hardware and cluster")
        return Settings(kept)
    many = _MANY.fullmatch(cluster)
    if many is None:
        return Settings({"hardware.gpu_type": said("hardware.gpu_type", cluster, "CLUSTER")})
    return Settings(
        {
            "hardware.gpu_type": said("hardware.gpu_type", many[2], "CLUSTER"),
            "cluster.num_gpus": said("cluster.num_gpus", many[1], "CLUSTER"),
        }
    )
