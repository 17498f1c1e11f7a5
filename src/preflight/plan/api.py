"""The plan for programs: one call for a report, and the analyzer with figures in GB and hours.

A GB is 10^9 bytes here; ``total_memory_gib`` has what drivers and ``nvidia-smi`` call a GB.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import msgspec

from preflight.errors import UsageError
from preflight.plan.inputs.form import KEYS, names_in
from preflight.plan.inputs.model import Chosen
from preflight.plan.inputs.requests import request_from
from preflight.plan.inputs.run import wish_of
from preflight.plan.inputs.settings import Said, Settings, said
from preflight.plan.make import plan_report
from preflight.plan.request import Wish
from preflight.plan.results import AnalysisResult
from preflight.vocabulary.hardware import Cluster
from preflight.vocabulary.model import ModelSpec
from preflight.vocabulary.quantity import format_parameters
from preflight.vocabulary.report import Report

_SHORT = {
    "gpu": "hardware.gpu_type", "gpus": "cluster.num_gpus", "batch_size": "model.batch_size", "strategy": "distribution.strategy",
    "model_type": "model.type", "size_billions": "model.size_billions", "sequence_length": "model.sequence_length",
    "image_size": "model.image_size",
}  # fmt: skip


def make_plan(
    model: str | float | ModelSpec | None = None,
    batch_size: int | None = None,
    *,
    config: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    catalog: tuple[str, ...] = (),
    **options: Any,
) -> Report:
    """Say whether a model fits on a cluster, how long a step takes, what it costs, and what holds it back.

    Args:
        model: A size in billions, a name of the catalog, a ``config.json``, or an architecture in numbers.
        batch_size: Samples of an optimizer step over all GPUs.
        config: Settings as a YAML file, or as a mapping of the same form; what stands beside it wins.
        catalog: Folders of the user's own catalog.
        options: ``gpu``, ``gpus``, ``strategy``, ``model_type``, ``sequence_length``, ``image_size``, and every key of
            the YAML form whose name belongs to one section (``precision``, ``tensor_parallel``, ``nodes`` ...).

    Returns:
        The report: ``verdict``, ``memory``, ``step``, ``plan``, ``recommendations`` ...

    Raises:
        UsageError: A value cannot be, or two contradict each other.
        InputError: A file that was named cannot be read.
    """
    given = _settings({**options, "batch_size": batch_size})
    spec = None
    if isinstance(model, ModelSpec):
        spec = Chosen(model, model.name or f"{model.family} of {format_parameters(model.parameters or 0)}")
    elif isinstance(model, str):
        file = model.endswith(".json") or os.path.isfile(os.path.join(model, "config.json"))
        given.said["model.config" if file else "model.name"] = Said(model, "model")
    elif model is not None:
        given.said["model.size_billions"] = said("model.size_billions", model, "model")
    return plan_report(request_from(given.over(_configured(config)), catalog, model=spec))


def _configured(config: str | os.PathLike[str] | Mapping[str, Any] | None) -> Settings:
    if config is None:
        return Settings()
    if isinstance(config, Mapping):
        import json

        from preflight.plan.inputs.document import settings_in

        return settings_in(json.dumps(config, default=str), "config")  # JSON is YAML
    from preflight.plan.inputs.document import read_settings

    return read_settings(os.fspath(config))


def _settings(options: Mapping[str, Any]) -> Settings:
    """Return options by their short names as settings.

    Raises:
        UsageError: There is no such option.
    """
    found: dict[str, Said] = {}
    for name, value in options.items():
        if value is not None:
            path = _path(name)
            found[path] = said(path, value, name)
    return Settings(found)


def _path(name: str) -> str:
    if name in _SHORT:
        return _SHORT[name]
    paths = [path for path, key in KEYS.items() if key.name == name and key.kind != "table"]
    if paths:
        return paths[0]
    from preflight.errors import nearest

    known = sorted({*_SHORT, *(key.name for key in KEYS.values() if key.kind != "table")})
    near = nearest(name, known)
    raise UsageError(f"make_plan has no option {name!r}", f"did you mean {near}?" if near else ", ".join(known))


def create_cluster_spec(num_gpus: int = 1, gpu_type: str = "NVIDIA H100", **options: Any) -> Cluster:
    """Return a cluster of GPUs of one kind.

    Args:
        num_gpus: All of them.
        gpu_type: The GPU, in any spelling.
        options: ``nodes``, ``gpus_per_node``, ``interconnect``, ``inter_node``, ``nics_per_node``, ``gpu_memory``.

    Raises:
        UsageError: A GPU or a link is not known, or the numbers contradict each other.
    """
    from preflight.plan.inputs.cluster import cluster_from

    known = (*names_in("cluster"), "gpu_memory")
    for name in options:
        if name not in known:
            raise UsageError(f"create_cluster_spec has no option {name!r}", f"known: {', '.join(known)}")
    return cluster_from(_settings({**options, "gpus": num_gpus, "gpu": gpu_type})).cluster


class Strategy(msgspec.Struct, frozen=True):
    """A way to spread a run over so many GPUs."""

    wish: Wish
    num_gpus: int | None = None


def create_distribution_strategy(name: str, num_gpus: int | None = None, **degrees: Any) -> Strategy:
    """Return a strategy by its name.

    Args:
        name: ``data_parallel``, ``tensor_parallel``, ``pipeline_parallel``, ``hybrid``, ``fsdp``, ``zero1`` ...
        num_gpus: The GPUs that it spreads over; those of the cluster where it is not said.
        degrees: ``data_parallel``, ``tensor_parallel``, ``pipeline_parallel``, ``zero_stage``, ``shard_size`` ...

    Raises:
        UsageError: There is no such strategy or degree.
    """
    known = names_in("distribution")
    for degree in degrees:
        if degree not in known:
            raise UsageError(f"a strategy has no {degree!r}", f"known: {', '.join(known)}")
    return Strategy(wish_of(_settings({**degrees, "strategy": name})), num_gpus)


class MemoryAnalyzer:
    """Memory, time and scaling of models on one GPU or one cluster."""

    def __init__(self, gpu_type: str | None = None, cluster_spec: Cluster | None = None) -> None:
        """Keep the hardware.

        Args:
            gpu_type: One GPU, in any spelling.
            cluster_spec: A cluster of ``create_cluster_spec``.

        Raises:
            UsageError: The GPU is not known, or both are given.
        """
        if gpu_type is not None and cluster_spec is not None:
            raise UsageError("gpu_type and cluster_spec are both given", "the cluster has its GPU: leave gpu_type out")
        self.cluster = cluster_spec or create_cluster_spec(1, gpu_type or "NVIDIA H100")

    def analyze_model(
        self,
        model_type: str = "transformer",
        model_size_billions: float | None = None,
        batch_size: int = 1,
        sequence_length: int | None = None,
        distribution_strategy: Strategy | str | None = None,
        **options: Any,
    ) -> AnalysisResult:
        """Return memory, time and scaling of a model.

        Args:
            model_type: ``transformer``, ``moe``, ``vision_transformer`` ...
            model_size_billions: Its parameters.
            batch_size: Samples of an optimizer step over all GPUs.
            sequence_length: Tokens of a sample.
            distribution_strategy: One of ``create_distribution_strategy``, or its name.
            options: As for ``make_plan``: ``name``, ``precision``, ``optimizer``, ``recompute`` ...

        Raises:
            UsageError: A value cannot be, or the strategy is for another number of GPUs.
        """
        settings = _settings(
            {
                **options,
                "model_type": model_type,
                "size_billions": model_size_billions,
                "batch_size": batch_size,
                "sequence_length": sequence_length,
            }
        )
        wish = Wish()
        if isinstance(distribution_strategy, str):
            distribution_strategy = create_distribution_strategy(distribution_strategy)
        if distribution_strategy is not None:
            wish, gpus = distribution_strategy.wish, distribution_strategy.num_gpus
            if gpus not in (None, self.cluster.num_gpus):
                raise UsageError(
                    f"the strategy spreads over {gpus} GPUs, the cluster has {self.cluster.num_gpus}",
                    "say the same number",
                )
        request = request_from(settings, cluster=self.cluster, wish=wish)
        return AnalysisResult(report=plan_report(request), num_gpus=self.cluster.num_gpus)


__all__ = [
    "MemoryAnalyzer",
    "Strategy",
    "create_cluster_spec",
    "create_distribution_strategy",
    "make_plan",
]
