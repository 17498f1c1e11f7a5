"""Where an exception was raised: what the functions and files of its frames say of what it is about."""

from __future__ import annotations

import re

from preflight.vocabulary.log import Frame, Raised
from preflight.vocabulary.signature import Category

# Where it was raised, the innermost frame that one of these takes decides.
_COMPILERS = re.compile(
    r"torch/_(?:dynamo|inductor)/|torch(?:dynamo|inductor)/|torch/_functorch/partitioners\.py$|triton/(?:compiler|backends|runtime|language|tools|experimental)/"
    r"|torch/utils/cpp_extension\.py$"
)
_PLACES: tuple[tuple[str, Category], ...] = (
    (_COMPILERS.pattern, "compile"),
    (
        r"huggingface_hub/|/(requests|urllib3|httpx|httpcore|aiohttp|botocore|boto3|s3transfer|gcsfs|s3fs|adlfs)/|/wandb/(?!(?:sdk/)?data_types/|plot/)"
        r"|^/\w.*/(?:versions|import_utils|dependency_versions_check)\.py$",
        "environment",
    ),
    (
        r"(^|[/\\])(PIL|cv2|imageio|decord|torchcodec|soundfile|librosa|av|h5py|lmdb|nibabel|rasterio)[/\\.]"
        r"|torchaudio/(?:datasets|io|_?backend|utils|_torchcodec|kaldi_io)|^/torch_geometric/(?:loader|datasets)/|^/(?:streaming|ffcv|webdataset|wids|torchdata|tensorflow_datasets|litdata|lhotse|albumentations"
        r"|imgaug|datatrove|megatron/energon|nvidia/dali)/|^/(?:pandas/io/(?!formats)|numpy/lib/_?(?:npyio|format))",
        "data",
    ),
    (
        r"torch/utils/data/|[/_]data_?sets?[/_]|webdataset|/data/|data_?loader|/dataset|tokeniz|collat|data_?(?:aug|prep|layer|reader|module)"
        r"|augment\w*\.py|(?:^|/)transforms?\.py|batchgenerators/|(?:pycocotools|lvis|nuscenes)/|(?:^|/)(?:data|roidb|imdb)\.py$",
        "data",
    ),
    (
        r"torch/serialization|distributed/checkpoint|safetensors|checkpoint(ing|er)?\.py|/checkpoint|keras/(?:src/)?(?:legacy/)?saving/|_weights_only_unpickler|/zero_to_fp32\.py$",
        "checkpoint",
    ),
)
_TRANSFORMS = re.compile(r"^/(?:jax|flax|haiku|optax|functorch|torch/(?:fx|distributions|func|_functorch))/")
"""Libraries whose transforms are of functions and distributions, and not of samples."""
_RECOMPUTES = re.compile(
    r"torch/utils/checkpoint\.py$|activation_checkpoint|checkpoint_(?:activations?|wrapper)|gradient_checkpoint"
)
"""What computes again in the backward pass what it did not keep, and is called checkpointing as well."""
# Where processes talk to each other: what is raised there, and is no mistake in an argument, is about them.
_TALKING = re.compile(
    r"distributed/(distributed_c10d|c10d_logger|rendezvous|device_communicators/\w+)\.py$|pynccl|/nccl\w*\.py$|horovod/\w+/mpi_ops"
)
_OF_A_CONNECTION = re.compile(
    r"(?i)timed? ?out|timeout|reset|closed|nccl|gloo|socket|peer|connect|store|network|host|address|rendezvous|abort|unreachable"
    r"|broken pipe|heartbeat|watchdog"
)
_OF_ARGUMENTS = ("TypeError", "ValueError", "AttributeError", "KeyError", "IndexError", "NameError", "AssertionError")
_FUNCTIONS: tuple[tuple[str, Category], ...] = (
    (
        r"(?<!down)(load|save)_(?:\w+_)?(checkpoint|state_dict|pretrained_state)|(?<!down)(?:load|save)_(?:(?:pre\w+|init\w*|model|adapter|lora|backbone)_)?weights|from_state_dict|load_state_dict|torch_save|torch_load"
        r"|^_?(?:load_or_|auto_|maybe_)?resume(?:_(?!download)\w+)?$|^_?(?:maybe_)?restore(?:_(?:checkpoint|model|weights|modules|state|training)\w*)?$"
        r"|^_?(?:load|restore)_(?:rng|random)_states?$",
        "checkpoint",
    ),
    (
        r"^(?:_write_ninja_file_and_(?:build|compile)_\w+|_run_ninja_build|_jit_compile|jit_load|build_extensions?)$",
        "compile",
    ),
    (r"__getitem__|collate|_fetch|default_collate|_try_get_data|decode_image|worker_loop", "data"),
    (
        r"^_?(get|load|prepare|build|make|create|setup|read|process|preprocess)_\w*(data(set|sets|loader|loaders)?|corpus|examples|samples|features?)$"
        r"|^load_(?:annotations?|images?|labels?|sample|csv|json)$|^(?:pre)?process_(?:and_save_)?\w*data$|^create_samples",
        "data",
    ),
)
_COMPUTES = re.compile(r"torch/(?:nn/(?:modules|functional|parallel)|autograd|functional|_tensor)\b")
_CARDS = re.compile(r"torch(?:_npu)?/(?:cuda|npu|xpu)/__init__\.py$")
"""Where a card is asked for: what is raised there, and was cut off, is mostly that there is none, or not so many."""
_OPTIMIZER = re.compile(r"torch/optim/\w+\.py$|(?:apex/optimizers|bitsandbytes/optim)/")
_SIZES = re.compile(r"(?i)\bsizes? (?:of tensor|mismatch|do(?:es)? not match)|shape mismatch|must match the size")
_SETTINGS = re.compile(
    r"(?:site|dist)-packages/.*(?:training_args\w*|/arg(?:ument)?s?|hf_argparser|configuration_\w+|/config(?:uration|s)?|/validat\w+|parallel_state|/launch\w*|/settings?)\.py$"
)
"""Where a library looks at what it was set to: what it finds wrong there are settings."""
_NEAREST = 3
_DISK = re.compile(r"^(?:[A-Za-z]:)?/[^/]+(?=/)")
"""The first folder of a path from the root: where a disk is mounted."""
_CALLS = re.compile(r"\b(\w+)\(")
_OF_A_STEP = (
    "forward",
    "_call_impl",
    "training_step",
    "validation_step",
    "test_step",
    "compute_loss",
    "backward",
    "optimizer_step",
)
"""Where a step computes: what called it, a loop that fetched its batch, has nothing to do with what went wrong in it."""
_SET_UP = re.compile(r"torch/utils/data/(?:sampler|dataloader|distributed)\.py$")
"""Where a loader is made of what a program hands to it; nothing is read yet."""
_LOOKS_UP = ("__getattr__", "__getattribute__")
"""Where a name is not found: who wanted it tells what it is about, and stands further out."""
_SPLITS = re.compile(r"dataset_dict\.py$")
"""A dictionary of data sets by the names of their splits: a name that it lacks is the program's."""
_LOADER = re.compile(r"torch/utils/data/|data_?loader|data_?set|collat")
_FROM_NUMBERS = re.compile(r"^_?(?:batch_)?decode$|^convert_(?:ids|tokens)_to_\w+$")
"""Where a tokenizer makes text of numbers: these come from the model, and not from the data."""
_MAPPED = re.compile(
    r"(?:^|_)tokenize(?:_|$)|^tokenize_\w+$|^(?:_map_single|_map_async_iter|apply_function|iter_outputs)$"
)
"""What makes a sample out of a record: a function that tokenizes, and those with which ``datasets`` maps a data set."""


def in_loader(raised: Raised) -> bool:
    """Return whether an exception was raised while a sample was fetched or a batch was put together."""
    return any(
        _MAPPED.search(frame.function)
        or (
            _LOADER.search(frame.path)
            and not _SPLITS.search(frame.path)
            and re.search(r"__getitem__|__iter__|__next__|collate|fetch|_worker_loop", frame.function)
        )
        for frame in raised.frames
    )


LIBRARY = re.compile(r"(?:site|dist)-packages[/\\]|/lib/python\d")
"""A file of a library, or of Python itself."""


def at_import(raised: Raised) -> bool:
    """Return whether an exception was raised while a library was imported: its parts, or what it needs, do not suit each other."""
    if not raised.frames:
        return False
    inner = raised.frames[-1]
    return inner.function == "<module>" and LIBRARY.search(inner.path) is not None


def category_of_frames(raised: Raised) -> Category | None:
    """Return what an exception is about by where it was raised; None where no frame tells."""
    name = raised.exception.rpartition(".")[2]
    # Arguments are checked there as well, and what finds them wrong is a RuntimeError as often.
    checked = name == "RuntimeError" and raised.message and not _OF_A_CONNECTION.search(raised.message)
    told = name not in _OF_ARGUMENTS and not checked
    if not raised.exception and raised.frames and (called := _of_calls(raised.frames[-1])) is not None:
        return called
    if raised.frames and _SETTINGS.search(raised.frames[-1].path.replace("\\", "/")):
        return "environment"
    if state_does_not_fit(raised):
        return "checkpoint"
    if not raised.exception and raised.frames and _CARDS.search(raised.frames[-1].path.replace("\\", "/")):
        return "environment"
    if raised.frames and _makes_a_loader(raised):
        return "usercode"
    for frame in reversed(raised.frames):
        if frame.function in _LOOKS_UP:
            continue
        path = _within(frame.path.replace("\\", "/"))
        if told and _TALKING.search(path):
            return "network"
        if _SPLITS.search(path) or _FROM_NUMBERS.search(frame.function) or _RECOMPUTES.search(path):
            continue
        if _COMPILERS.search(path):
            return "compile"
        for pattern, category in _FUNCTIONS:
            if re.search(pattern, frame.function):
                return category
        for pattern, category in _PLACES:
            if re.search(pattern, path) and (category != "data" or not _TRANSFORMS.search(path)):
                return category
        if frame.function in _OF_A_STEP:
            return None
    return None


def _makes_a_loader(raised: Raised) -> bool:
    """Return whether a loader or its sampler refuses an argument that it is made with; that there are no samples is none."""
    inner = raised.frames[-1]
    refuses = inner.function == "__init__" and _SET_UP.search(inner.path.replace("\\", "/")) is not None
    return refuses and "num_samples" not in raised.message


def category_of_logger(name: str) -> Category | None:
    """Return what a module of a library is about that tells something under its own dotted name; None where it does not tell."""
    path = f"/{name.replace('.', '/')}.py"
    return next((category for pattern, category in _PLACES if re.search(pattern, path)), None)


def state_does_not_fit(raised: Raised) -> bool:
    """Return whether an optimizer met sizes that differ: what it keeps of each parameter is of another model, out of a file."""
    inner = raised.frames[-1] if raised.frames else None
    return (
        inner is not None
        and _OPTIMIZER.search(inner.path.replace("\\", "/")) is not None
        and _SIZES.search(raised.message) is not None
    )


def _of_calls(frame: Frame) -> Category | None:
    """Return what the line of the last frame of a traceback that is cut off calls: where it went on, and was not shown."""
    for name in _CALLS.findall(frame.code):
        for pattern, category in _FUNCTIONS:
            if re.search(pattern, name):
                return category
    return None


def _within(path: str) -> str:
    """Return a path without what stands before a library, or before the last folders: a disk that is called data says nothing."""
    ends = [found.end() for found in LIBRARY.finditer(path)]
    if ends:
        return path[ends[-1] - 1 :]
    return "/".join(_DISK.sub("", path).rsplit("/", _NEAREST)[-_NEAREST:])


def computing(raised: Raised) -> Category | None:
    """Return that a network computed where a traceback is cut off: what is raised there is mostly about its shapes and devices."""
    inner = raised.frames[-1].path.replace("\\", "/") if raised.frames else ""
    return "usercode" if _COMPUTES.search(inner) else None
