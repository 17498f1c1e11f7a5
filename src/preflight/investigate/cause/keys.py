"""Whose a key is that was looked up in vain, and whose function does not take an argument: by who looks, and by the line that does."""

from __future__ import annotations

import re

from preflight.investigate.cause.frames import category_of_frames
from preflight.investigate.cause.samples import is_field
from preflight.investigate.cause.words import REGISTRY, said_of
from preflight.vocabulary.log import Frame, Raised
from preflight.vocabulary.signature import Category

_LIBRARY = re.compile(r"(?:site|dist)-packages[/\\]|/lib/python\d|^<frozen ")
_KINDS = re.compile(r"transformers/models/auto/")
_ENVIRONMENT = re.compile(r"(?:/|^)os\.py$|^<frozen os>$")
"""Python's own module; newer versions bear it within."""
_UNSET = re.compile(
    r"^['\"](?:(?:LOCAL_|NODE_)?RANK|(?:LOCAL_)?WORLD_SIZE|(?:MASTER|SLURM|PBS|OMPI|CUDA)_\w+|\w+_(?:TOKEN|API_KEY))['\"]$"
)
_SAVED_KEY = re.compile(
    r"^['\"](?:(?:\w+_)?(?:state_dict|param_groups)|optimizer|lr_scheduler|amp|grad_scaler|(?:cuda_)?rng_states?)['\"]$"
)
# What a program calls the thing in which it looks says what that is: a part of a checkpoint, or one record of a data set.
_HOLDERS: tuple[tuple[str, Category], ...] = (
    (r"_*(?:(?:\w+_)?(?:ckpt|checkpoint|chkpt|state_?dict|snapshot)\w*|saved(?:_\w+)?)", "checkpoint"),
    (
        r"_*(?:\w+_)?(?:info|ann|anno|annotation|annos|sample|record|row|entry|example|item|elem(?:ent)?|obj|doc(?:ument)?|datum|roi_?db|imdb|meta(?:_?data|_?info)?|df|dataframe|img_info|image_info)s?",
        "data",
    ),
)
_CONFIGURED = re.compile(r"_*(?:\w+_)?(?:conf(?:ig)?|cfg|args|opts?|options|hparams|params|settings)")
"""Settings: what a data set wants of them, and they lack, is about the data."""
_OF_DATA = re.compile(
    r"(?:^|[/_])data_?sets?[/_.]|data_?(?:loader|layer|reader|module|prep|process)|annotation|_to_coco|(?:pycocotools|lvis|nuscenes)/|/(?:data|roidb|imdb)\.py$"
)
"""Files in which a data set is read."""
_MODULES = re.compile(r"torch/nn/(?:modules/module|parallel/\w+)\.py$")
"""What passes a call on to the network."""
_AROUND_MODULES = re.compile(
    r"torch/(?:(?:cuda/)?amp/autocast_mode|_dynamo/eval_frame|distributed/fsdp/\w+)\.py$|accelerate/utils/operations\.py$"
    r"|deepspeed/(?:runtime/engine|utils/nvtx)\.py$"
)
"""What a network is wrapped in, and passes a call on as well."""
_CONSTANT = re.compile(r"\b[A-Z][A-Z0-9_]+\[(?!\s*['\"])")
"""A constant of a library that holds what it knows by name."""
_TABLES = re.compile(r"packages/(?:pandas|polars|numpy|torch|datasets|pyarrow|xarray|anndata|h5py)/")
"""Libraries that hold what a program put in: a name that is not there is none of a setting."""
_ALIAS = re.compile(
    r"\b(?:lgb|lightgbm|xgb|xgboost|np|numpy|pd|pandas|tf|keras|torch|nn|F|torchvision|torchaudio|timm|pl|jax|jnp|optax|flax|sns|plt|cv2|librosa"
    r"|yaml|wandb|mlflow|optuna|transformers|accelerate|deepspeed|peft|trl|gym|gymnasium|sklearn|scipy|nx|networkx|albumentations)"
    r"\.(?:\w+\.)*(?P<callee>\w+)\("
)
"""A function of a library, by the name under which a program has the library; `datasets` and `evaluate` are as often its own."""
_UNEXPECTED = re.compile(r"^(?P<callee>[\w.<>]+)\(\) got an unexpected keyword argument")
_FROM_MODULE = re.compile(
    r" from (?:partially initialized module )?'(?P<module>[\w.]+)' \((?:[^()]*\) \()?(?P<path>(?:/|[A-Z]:)[^()]+)\)"
)
_OF_A_FOLDER = re.compile(r"^No module named '(?P<first>\w+)\.[\w.]+'$")
_FOLDERS = re.compile(
    r"src|libs?|core|common|tools?|scripts?|utils?|helpers?|misc|configs?|layers?|models?|modules?|nets?|networks?|losses|data|data_provider"
    r"|dataloaders?|engines?|exp|experiments?|train|training|trainers?|tests"
)
"""What programs call their own folders, and libraries that one installs are not called."""
_MADE = re.compile(r"__init__$|^[A-Z]")


def looked_up(raised: Raised) -> Category | None:
    """Return what a key is of that was looked up in vain, where the key or who looks tells; None where neither does.

    A variable that whoever started the program has not set, a kind of model that the installed library does not know yet,
    a part that a saved state lacks, a field of a record of the data.
    """
    if raised.exception != "KeyError":
        return None
    inner = raised.frames[-1] if raised.frames else None
    path = inner.path.replace("\\", "/") if inner is not None else ""
    if inner is not None and ((_ENVIRONMENT.search(path) and inner.function == "__getitem__") or _KINDS.search(path)):
        return "environment"
    of_a_constant = inner is not None and _LIBRARY.search(path) and _CONSTANT.search(inner.code)
    if _UNSET.search(raised.message) or REGISTRY.search(raised.message) or of_a_constant:
        return "environment"
    own = innermost_own(raised)
    held = _holder(own, raised.message) if own is not None else None
    if " " in raised.message and held is None:  # a sentence, and no key
        return said_of(raised.message) or ("environment" if _refuses(inner) else None)
    if _SAVED_KEY.search(raised.message) and (held is None or not _CONFIGURED.fullmatch(held)):
        return "checkpoint"
    if own is not None and _field_of_sample(own, raised.message):
        return "data"
    if inner is None:  # of a line alone the key is all there is
        return "data" if is_field(raised.message) else None
    if held is not None and _CONFIGURED.fullmatch(held):
        return "data" if category_of_frames(raised) == "data" else None
    if held is not None:
        return next((category for pattern, category in _HOLDERS if re.fullmatch(pattern, held)), None)
    if path.endswith(
        "dataset_dict.py"
    ):  # of data sets by the names of their splits: a name that it lacks is the program's
        return None
    return "data" if _OF_DATA.search("/".join(path.split("/")[-3:])) else None


def of_another_version(raised: Raised) -> bool:
    """Return whether it was a library that did not take an argument: it is of another version than the program was written for.

    A class is mostly a library's, and a library that calls one's own function passes what its version passes; a function that
    one's own code calls by name is mostly one's own.
    """
    found = _UNEXPECTED.match(raised.message)
    if found is None or _MADE.search(found["callee"].rpartition(".")[2]):
        return True
    if not raised.frames:
        return False
    if any(found["callee"] == one["callee"] for one in _ALIAS.finditer(raised.frames[-1].code)):
        return True
    frames = [
        frame
        for frame in raised.frames
        if not _MODULES.search(path := frame.path.replace("\\", "/")) and not _AROUND_MODULES.search(path)
    ]
    return not frames or _LIBRARY.search(frames[-1].path.replace("\\", "/")) is not None


def of_its_own_package(raised: Raised) -> bool:
    """Return whether a program wants a name from a module of its own that this does not have."""
    found = _FROM_MODULE.search(raised.message)
    if found is None or _LIBRARY.search(path := found["path"].replace("\\", "/")):
        return False
    root = re.sub(rf"/{re.escape(found['module'].replace('.', '/'))}(?:/__init__)?\.\w+$", "/", path)
    asks = raised.frames[-1].path.replace("\\", "/") if raised.frames else ""
    return root not in (path, "/") and asks.startswith(root)


def lacks_its_own_module(raised: Raised) -> bool:
    """Return whether a program imports a module that a folder of its own does not have: no package that could be installed.

    Python names a module in full, with its folders, only where it found these: what lacks it is there. Where the script itself
    asks for it, its folders may only not be on the path; a module that was imported before shows that they are.
    """
    found = _OF_A_FOLDER.match(raised.message)
    if found is None or not raised.frames:
        return False
    paths = [frame.path.replace("\\", "/") for frame in raised.frames if not frame.path.startswith("<")]
    if not paths or _LIBRARY.search(paths[-1]):
        return False
    own = [path.split("/") for path in paths if not _LIBRARY.search(path)]
    shared = next((place for place, names in enumerate(zip(*own, strict=False)) if len(set(names)) > 1), 0)
    # A folder above all of them may be called as a library is: those of the program are beside each other.
    seen = any(path[shared] == found["first"] for path in own if len(path) > shared + 1)
    imported = own[0] != own[-1]
    return seen or (imported and _FOLDERS.fullmatch(found["first"]) is not None)


def lacks_for_a_library(raised: Raised) -> bool:
    """Return whether a library looked in vain for a part of a network: it was written for another kind or version of it."""
    if raised.exception != "AttributeError" or len(raised.frames) < 2 or raised.frames[-1].function != "__getattr__":
        return False
    inner, asks = (frame.path.replace("\\", "/") for frame in (raised.frames[-1], raised.frames[-2]))
    return _MODULES.search(inner) is not None and _LIBRARY.search(asks) is not None and "-packages/torch/" not in asks


def _refuses(frame: Frame | None) -> bool:
    """Return whether a library itself says that it knows no such name."""
    if frame is None or not frame.code.lstrip().startswith("raise "):
        return False
    path = frame.path.replace("\\", "/")
    return _LIBRARY.search(path) is not None and _TABLES.search(path) is None


def innermost_own(raised: Raised) -> Frame | None:
    """Return the innermost frame that is of no library."""
    return next((one for one in reversed(raised.frames) if not _LIBRARY.search(one.path.replace("\\", "/"))), None)


def _field_of_sample(frame: Frame, key: str) -> bool:
    """Return whether a line of code looks a field up in one sample of a data set, by its number."""
    word = re.escape(key.strip("'\""))
    return re.search(rf"(?i)data_?sets?(?:\[['\"]\w+['\"]\])?\[\w+\]\[\s*['\"]{word}['\"]\s*\]", frame.code) is not None


def _holder(frame: Frame, key: str) -> str | None:
    """Return the name of that in which a line of code looks a key up; None where it does not show."""
    word = key.strip("'\"")
    found = re.search(rf"(\w+)(?:\([^()]*\)|\[[^\[\]]*\])*\[\s*['\"]{re.escape(word)}['\"]\s*\]", frame.code)
    return found[1].lower() if found is not None else None
