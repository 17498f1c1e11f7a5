"""From settings to a request: model, run, cluster and spread, with everything that was taken for granted."""

from __future__ import annotations

from preflight.catalog.files import Folders
from preflight.plan.inputs.cluster import Chosen as Hardware
from preflight.plan.inputs.cluster import cluster_from
from preflight.plan.inputs.model import SOURCES, Chosen, model_of
from preflight.plan.inputs.run import run_of, unused, wish_of
from preflight.plan.inputs.settings import Settings
from preflight.plan.request import Request, Wish
from preflight.vocabulary.hardware import Cluster
from preflight.vocabulary.run import RunSpec

# Keys of the file whose field of the run has another name.
_FIELDS = {
    "model.batch_size": "global_batch", "model.sequence_length": "sequence_length", "model.image_size": "image_size",
    "model.target_length": "target_length",
}  # fmt: skip


def request_from(
    settings: Settings,
    catalog: Folders = (),
    inputs: dict[str, object] | None = None,
    model: Chosen | None = None,
    cluster: Cluster | None = None,
    wish: Wish | None = None,
) -> Request:
    """Return the request that settings describe.

    Args:
        settings: What was said.
        catalog: Folders of the user's own catalog.
        inputs: What was given, for the report, beside what the settings tell.
        model: The model, where the settings describe none.
        cluster: The cluster, instead of what the settings say of it.
        wish: How it is to be spread, instead of what the settings say of it.

    Raises:
        UsageError: A value cannot be, or two contradict each other.
        InputError: A file that was named cannot be read.
    """
    if "run.tokens" in settings and "run.steps" in settings:
        raise settings.error(
            "run.steps", f"tokens ({settings.where('run.tokens')}) and steps are both given", "say one of the two"
        )
    described = model is None or any(path in settings for path in SOURCES)
    chosen = model_of(settings, catalog) if described or model is None else model
    hardware = Hardware(cluster) if cluster is not None else cluster_from(settings, catalog)
    cluster = hardware.cluster
    wish = wish if wish is not None else wish_of(settings)
    search = bool(settings.get("analysis.search")) or wish.strategy == "auto"
    run = run_of(settings, chosen.model, wish, cluster, search)
    told: dict[str, object] = {
        "subject": f"{chosen.title} on {cluster.num_gpus} x {cluster.gpu.title}", "model": chosen.title, "batch": run.run.global_batch, "gpus": cluster.num_gpus, "gpu": cluster.gpu.name,
        "strategy": wish.strategy,
    }  # fmt: skip
    fixed = {_FIELDS.get(path, path.partition(".")[2]) for path in settings.said if path.startswith(("run.", "model."))}
    return Request(
        model=chosen.model, run=run.run, cluster=cluster, wish=wish,
        tokens=settings.get("run.tokens"), steps=settings.get("run.steps"),
        checkpoint_steps=settings.get("run.checkpoint_steps"),
        storage_gb_per_s=settings.get("cluster.storage_gb_per_s"),
        assumptions=(*chosen.assumptions, *run.assumptions, *hardware.assumptions),
        notes=(*chosen.notes, *hardware.notes, *unused(settings, chosen.model)),
        inputs={name: value for name, value in (told | (inputs or {})).items() if value is not None},
        fixed=frozenset(fixed & set(RunSpec.__struct_fields__)),
        search=search,
        bottlenecks=bool(settings.get("analysis.enable_bottlenecks")),
        max_batch_size=bool(settings.get("analysis.max_batch_size")),
        basic=bool(settings.get("analysis.basic_mode")),
    )  # fmt: skip
