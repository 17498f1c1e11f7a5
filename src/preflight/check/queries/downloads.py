"""Files that a script fetches from elsewhere: which calls fetch, and whether a value comes from one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from preflight.source.trace import Event, provenance
from preflight.source.values import Known, Obj, Value, settle

if TYPE_CHECKING:
    from preflight.check.context import Context

# Calls that fetch, with the position and name of the file that they write (None where they return it).
FETCHES: dict[str, tuple[int, str] | None] = {
    "urllib.request.urlopen": None,
    "urllib.request.urlretrieve": (1, "filename"),
    "requests.get": None,
    "requests.request": None,
    "httpx.get": None,
    "gdown.download": (1, "output"),
    "gdown.cached_download": (1, "path"),
    "wget.download": (1, "out"),
    "huggingface_hub.hf_hub_download": None,
    "huggingface_hub.snapshot_download": None,
    "huggingface_hub.cached_download": None,
    "torch.hub.download_url_to_file": (1, "dst"),
    "torchvision.datasets.utils.download_url": (1, "root"),
    "torchvision.datasets.utils.download_and_extract_archive": (1, "download_root"),
    "boto3.client": None,
    "timm.models.hub.download_cached_file": None,
    "torch.hub.load_state_dict_from_url": None,
}


def fetched(context: Context, value: Value | None) -> Event | None:
    """The call that fetched what a value is or is read from; None where nothing says that it was fetched."""
    if value is None:
        return None
    parts = list(provenance(value, 120))
    for part in parts:
        if isinstance(part, Obj) and part.name in FETCHES:
            return context.reading.event_of(part)
    texts = {p.value for p in parts if isinstance(p, Known) and isinstance(p.value, str) and len(p.value) > 2}
    mine = {id(p) for p in parts if isinstance(p, Obj)}
    for event in context.trace.calls(*FETCHES):
        place = FETCHES[event.name]
        target = event.argument(*place) if place is not None else None
        base = settle(target) if target is not None else None
        if isinstance(base, Known) and base.value in texts:
            return event
        if isinstance(base, Obj) and id(base) in mine and base.name.startswith(("os.path.", "pathlib.")):
            return event
    return None


def url_of(event: Event) -> str | None:
    """The address that a fetching call is given, where it is known."""
    for value in (*event.args, *event.kwargs.values()):
        base = settle(value)
        if isinstance(base, Known) and isinstance(base.value, str) and "://" in base.value:
            return base.value
    return None
