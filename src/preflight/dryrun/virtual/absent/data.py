"""Data sets and metrics of the hub that are not there, and what else a script reads: files, arrays, downloads."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from preflight.dryrun.virtual.absent import (
    after,
    arrays,
    callers,
    files,
    formats,
    frames,
    graphs,
    network,
    pictures,
    records,
)
from preflight.dryrun.virtual.absent.recorders import Recorder

ROWS = 2_500
"""Records of a data set: more than the two thousand that some scripts put aside."""
_IMAGES = ("image", "img", "pixel_values", "picture", "photo", "jpg", "png")
_WITH_IMAGES = 256
"""Records of a data set that has pictures."""


def install(
    owns: Callable[[str], bool],
    assume: Callable[[str], None],
    overlay: Any,
    arguments: list[str],
    given: Any = None,
) -> None:
    """Meet missing files of the person's own code, arrays of numpy and data sets of the hub.

    Args:
        owns: Whether a file is the person's own code.
        assume: Is given a line for each stand-in.
        overlay: The scratch folder.
        arguments: The script's command line.
        given: The batches that the person described, if any; loaders of missing data sets give those.
    """
    files.Imagined(owns, overlay, arguments, assume, given is not None).install()
    network.install(owns, assume)
    after.imported("numpy", lambda module: arrays.install(module, owns, assume))
    after.imported("pandas", lambda module: frames.install(module, owns, assume))
    after.imported("datasets", lambda module: _hub(module, owns, assume, given))
    pictures.install(assume)
    after.imported("torch_geometric.data", lambda module: graphs.install(module, assume))
    after.imported("evaluate", lambda module: _metrics(module, assume))


def _metrics(evaluate: Any, assume: Callable[[str], None]) -> None:
    if not hasattr(evaluate, "load"):
        return  # a module of the person's own of that name
    plain = evaluate.load

    def load(path: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return plain(path, *args, **kwargs)
        except Exception:
            assume(f"metric {path} is not here: it did nothing")
            return Recorder(f"metric {path}")

    evaluate.load = load


def _hub(datasets: Any, owns: Callable[[str], bool], assume: Callable[[str], None], given: Any) -> None:
    if not hasattr(datasets, "load_dataset"):
        return  # a module of the person's own of that name
    plain = datasets.load_dataset

    def load_dataset(path: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return plain(path, *args, **kwargs)
        except Exception as error:
            reason = type(error).__name__
        if given is not None:
            given.hub = True
        known = DATA_SETS.get((str(path), args[0] if args else kwargs.get("name")))
        rows = [_row(known, number) for number in range(ROWS)] if known else _rows(owns)
        assume(f"data set {path} is not here ({reason}): {len(rows)} records with the keys that the script reads")
        whole = datasets.Dataset.from_list(rows)
        split = kwargs.get("split")
        if kwargs.get("streaming"):
            whole = whole.to_iterable_dataset()
        if isinstance(split, (list, tuple)):
            return [whole] * len(split)
        if split is not None:
            return whole
        names = ("train", "validation", "test")
        return (datasets.IterableDatasetDict if kwargs.get("streaming") else datasets.DatasetDict)(
            dict.fromkeys(names, whole)
        )

    datasets.load_dataset = load_dataset
    hasher = datasets.fingerprint.Hasher
    plain_hash = hasher.hash

    def hashed(cls: Any, value: Any) -> Any:
        try:
            return plain_hash(value)
        except Exception:
            # What a dry run put in place need not be picklable; a name for a cache is all that is lost.
            return f"{random.getrandbits(64):016x}"

    hasher.hash = classmethod(hashed)


def _rows(owns: Callable[[str], bool]) -> list[dict[str, Any]]:
    """Return records with the keys of the script, and of the file that asks where that is another one."""
    own = callers.own_frame(owns)
    files_asking = (records.script(), *((own.f_code.co_filename,) if own is not None else ()))
    asked = records.keys(*files_asking)
    pictured = [key for key in asked if key.lower() in _IMAGES]
    if pictured:
        from PIL import Image

        black = Image.new("RGB", (formats.WIDTH, formats.HEIGHT))
        labels = [key for key in asked if key.lower() in ("label", "target", "class", "fine_label")]
        return [
            {
                **dict.fromkeys(pictured, black),
                **dict.fromkeys(labels or ["label"], number % 2),
                "text": formats.words(12, number),
            }
            for number in range(_WITH_IMAGES)
        ]
    rows = [records.record(number, *files_asking) for number in range(ROWS)]
    for row in rows:
        row.setdefault("text", formats.words(100, 1))
        row.setdefault("messages", records.dialogue(2))
    return rows


DATA_SETS: dict[tuple[str, str | None], dict[str, str]] = {
    ("glue", "mrpc"): {"sentence1": "text", "sentence2": "text", "label": "2", "idx": "index"},
    ("nyu-mll/glue", "mrpc"): {"sentence1": "text", "sentence2": "text", "label": "2", "idx": "index"},
    ("sentence-transformers/stsb", None): {"sentence1": "text", "sentence2": "text", "score": "share"},
}
"""Published columns of data sets that scripts read as a whole, by path and name."""


def _row(columns: dict[str, str], number: int) -> dict[str, Any]:
    kinds: dict[str, Callable[[], Any]] = {
        "text": lambda: formats.words(24, number).replace("\n", " "),
        "2": lambda: number % 2,
        "index": lambda: number,
        "share": lambda: (number % 10) / 10,
    }
    return {name: kinds[kind]() for name, kind in columns.items()}
