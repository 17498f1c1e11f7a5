"""What could not be pickled was wanted for: samples in a loader's workers, a checkpoint, a copy, a message to other ranks."""

from __future__ import annotations

import re

from preflight.vocabulary.log import Raised
from preflight.vocabulary.signature import Category

_MESSAGES = re.compile(
    r"^(?:_object_to_tensor|broadcast_object_list|(?:all_)?gather_object|scatter_object_list|(?:send|isend)_object_list|rpc_(?:a?sync)|remote)$"
)
_COPIES = re.compile(r"^_?deepcopy(?:_\w+)?$|^_reconstruct$")
_SAVES = re.compile(r"torch/serialization\.py$|checkpoint\w*\.py$|/dill/|/joblib/numpy_pickle\.py$")
_TASKS = re.compile(r"/ray/|/cloudpickle/|/submitit/|/dask/|distributed/rpc/")
_LOADS = re.compile(r"torch/utils/data/|data_?loader|data_?set")


def wanted_for(raised: Raised) -> Category | None:
    """Return what it was to be pickled for, by the innermost frame that tells; None where none does."""
    for frame in reversed(raised.frames):
        path = frame.path.replace("\\", "/")
        if _LOADS.search(path):
            return "data"
        if _SAVES.search(path):
            return "checkpoint"
        if _MESSAGES.match(frame.function) or _COPIES.match(frame.function) or _TASKS.search(path):
            return "usercode"
    return None
