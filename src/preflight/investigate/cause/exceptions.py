"""What an exception means that no signature took: by where it was raised, then by its class.

It is the last resort, and weighs little: the class alone says more of the symptom than of the cause.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

from preflight.investigate.cause.printers import printed_by
from preflight.vocabulary.log import Frame, Hit, Raised
from preflight.vocabulary.signature import Category, Role


class Meaning(NamedTuple):
    """What it is taken for."""

    title: str
    category: Category
    role: Role


# Where it was raised, the innermost frame that one of these takes decides.
_PLACES: tuple[tuple[str, Category], ...] = (
    (r"torch/_(dynamo|inductor)/|triton/(compiler|backends|runtime)/|torch/utils/cpp_extension\.py$", "compile"),
    (r"huggingface_hub/|/(requests|urllib3|httpx|httpcore|aiohttp|wandb)/", "environment"),
    (
        r"(^|[/\\])(PIL|cv2|imageio|decord|torchcodec|soundfile|librosa|torchaudio|av|h5py|lmdb|nibabel|rasterio)[/\\.]",
        "data",
    ),
    (
        r"torch/utils/data/|[/_]data_?sets?[/_]|webdataset|/data/|data_?loader|/dataset|tokeniz|collat|data_?(?:aug|prep|layer|reader|module)"
        r"|augment\w*\.py|(?:^|/)transforms?\.py|batchgenerators/|(?:pycocotools|lvis|nuscenes)/|(?:^|/)(?:data|roidb|imdb)\.py$",
        "data",
    ),
    (r"torch/serialization|distributed/checkpoint|safetensors|checkpoint(ing|er)?\.py|/checkpoint", "checkpoint"),
)
# A launcher raises when one of its processes has failed; what it raises says no more than that.
_LAUNCHERS = re.compile(
    r"torch/distributed/(run|launch|launcher/api|elastic/.+)\.py$|accelerate/commands/|deepspeed/launcher/|(^|/)runpy\.py$"
    r"|/bin/(torchrun|accelerate|deepspeed)$|^<frozen runpy>$"
)
# Where processes talk to each other: what is raised there, and is no mistake in an argument, is about them.
_TALKING = re.compile(
    r"distributed/(distributed_c10d|c10d_logger|rendezvous|device_communicators/\w+)\.py$|pynccl|/nccl\w*\.py$|horovod/\w+/mpi_ops"
)
_OF_A_CONNECTION = re.compile(
    r"(?i)timed? ?out|timeout|reset|closed|nccl|gloo|socket|peer|connect|store|network|host|address|rendezvous|abort|unreachable"
    r"|broken pipe|heartbeat|watchdog"
)
_OF_ARGUMENTS = ("TypeError", "ValueError", "AttributeError", "KeyError", "IndexError", "NameError", "AssertionError")
# What a launcher raises while it stops its processes says nothing of why they stop; of its own arguments it says what is wrong.
_OF_LAUNCHER = re.compile(
    r"deepspeed/launcher/|torch/distributed/(?:run|launch|launcher/api)\.py$|accelerate/commands/launch"
)
_OF_AN_ENDPOINT = re.compile(r"torch/distributed/elastic/rendezvous/(?:utils|api|registry)\.py$")
"""Where the endpoint that a launcher was given is taken apart."""
_STOPPING = re.compile(r"handler|kill|terminat|stop|close|shutdown")
_SAID_OF_ARGUMENTS = ("ValueError", "TypeError", "AssertionError", "FileNotFoundError", "ArgumentError")
_FUNCTIONS: tuple[tuple[str, Category], ...] = (
    (
        r"(load|save)_(checkpoint|state_dict|pretrained_state)|load_state_dict|torch_save|torch_load"
        r"|^_?(?:load_or_|auto_|maybe_)?resume(?:_(?!download)\w+)?$|^_?(?:maybe_)?restore(?:_(?:checkpoint|model|weights|modules|state|training)\w*)?$",
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
_CLASSES: tuple[tuple[str, Category, Role], ...] = (
    (r"(CUDA)?OutOfMemoryError|MemoryError|ResourceExhausted(?:Error)?", "oom", "root"),
    (r"NameError|UnboundLocalError|SyntaxError|IndentationError|TabError|RecursionError", "usercode", "root"),
    (r"\w*(?:Dynamo|Inductor|Triton|Compil)\w*(?:Error|Failed|Exception)", "compile", "root"),
    (r"HTTPError|URLError|SSLError|MaxRetryError|NewConnectionError|ProxyError|ReadTimeout(Error)?|ConnectTimeout|HfHubHTTPError"
     r"|RepositoryNotFoundError|GatedRepoError|LocalEntryNotFoundError|HFValidationError|\w*CommError|UsageError"
     r"|ValidationError|ConfigAttributeError|ConfigKeyError|MissingMandatoryValue|\w*CompositionException", "environment", "root"),
    (r"ImportError|ModuleNotFoundError|EnvironmentError|VersionConflict|PackageNotFoundError", "environment", "root"),
    (r"Dist(Network|Store|Backend)?Error|HorovodInternalError|NCCLError|[nrh]ccl\w*Error|ConnectionError|ConnectionResetError|BrokenPipeError"
     r"|ConnectionRefusedError|TimeoutError|DeadlineExceeded\w*|\w*R[Pp][Cc]Error|MultiThreadedRendezvous|RendezvousError\w*", "network", "cascade"),
    (r"ExecuteUserScriptError|AlgorithmError|UnexpectedStatusException", "other", "teardown"),
    (r"ChildFailedError|ProcessRaisedException|ProcessExitedException|RayTaskError|CalledProcessError|TuneError"
     r"|RayActorError|ActorDiedError|WorkerCrashedError|NodeDiedError|ActorUnavailableError|WorkerGroupError", "other", "teardown"),
    (r"SignalException|KeyboardInterrupt|Preempted\w*|Terminated", "preemption", "teardown"),
    (r"SystemExit", "other", "teardown"),
    (r"FloatingPointError|ZeroDivisionError|OverflowError|LinAlgError|\w*(Nan|NaN|Inf)\w*(Error|Exception)", "numerical", "root"),
    (r"UnicodeDecodeError|JSONDecodeError|StopIteration|EOFError|UnpicklingError|PicklingError|ArrowInvalid|BadZipFile|ReadError"
     r"|UnidentifiedImageError|ParserError|ParseError|BadGzipFile|LZMAError", "data", "root"),
    (r"PermissionError|FileNotFoundError|FileExistsError|OSError|IOError|ArgumentError|ConfigError|\w*ConfigurationError|ScannerError"
     r"|\w*Credentials\w*|ClientError|EndpointConnectionError|MissingConfigException|Timeout|CalledProcessError", "environment", "root"),
)  # fmt: skip
# The package that defines an exception says what it is about, where its class has a name of its own.
_PACKAGES: tuple[tuple[str, Category], ...] = (
    (r"(?:PIL|lmdb|h5py|pyarrow|datasets|webdataset|soundfile|librosa|torchaudio|decord|av|tarfile|streaming|tokenizers|pandas)\.", "data"),
    (r"(?:safetensors|safetensors_rust|orbax|tensorstore)\.|torch\.distributed\.checkpoint\.", "checkpoint"),
    (r"torch\._(?:dynamo|inductor)\.|triton\.", "compile"),
    (r"(?:omegaconf|hydra|yaml|pydantic\w*|jsonargparse|click|tyro|botocore|boto3|google\.(?:auth|api_core)|azure|huggingface_hub|requests"
     r"|urllib3|httpx|aiohttp|wandb|mlflow|filelock|pkg_resources|importlib)\.", "environment"),
)  # fmt: skip
# Of a class that a program or a library made for itself, the words of its name say what it is about.
_NAMED: tuple[tuple[str, Category], ...] = (
    (r"Checkpoint|StateDict|Safetensor", "checkpoint"),
    (r"Dataset|DataLoader|Image|Audio|Video|Decod|Decompress|Corrupt|Codec|Schema", "data"),
    (r"API|H(?:TTP|ttp)|Auth|Credential|Permission|Quota|RateLimit|Throttl|Config|Setting|Version|Mismatch|Dependenc|Install|Licen[cs]e", "environment"),
    (r"Timeout|TimedOut|Connect|Unreachable|Socket|R(?:PC|pc)(?![a-z])", "network"),
)  # fmt: skip
_TRACKERS = re.compile(
    r"(?:site|dist)-packages/(?:wandb|swanlab|mlflow|comet_ml|neptune|clearml|aim|trackio|tensorboard\w*)/|/torch/utils/tensorboard/"
)
"""What watches a training, from threads of its own: the training goes on without it."""
# What a file that is not there, or cannot be read, is by its name.
_FILES: tuple[tuple[str, Category], ...] = (
    (r"(?:^|[/\\'\" ])(?:train(?:ing)?|val(?:id(?:ation)?)?|test)\.bin\b", "data"),
    (r"(?:^|[/\\'\" ])data_?sets?[/\\](?!\S*(?:site-packages|checkpoint|ckpt))\S+\.(?:bin|idx|txt|jsonl?|lst)\b", "data"),
    (r"\.(pt|pth|ckpt|safetensors|bin|distcp)\b|checkpoint|state_dict", "checkpoint"),
    (r"\.(so|dll|dylib|py|cu|cpp|h|cuh)\b|nvcc|ninja|CUDA_HOME|site-packages/\S+\.(json|txt)", "environment"),
    (r"\.(jpe?g|png|tiff?|bmp|webp|gif|wav|flac|mp3|mp4|avi|npy|npz|h5|hdf5|lmdb|mdb|parquet|arrow|csv|tsv|jsonl?|txt|tar|zip"
     r"|gz|mat|nii|pkl|pickle|tfrecord|list|idx)\b|\bdata(sets?)?/|/data(sets?)?\b|annotations?|/images?\b", "data"),
)  # fmt: skip
_MISSING = re.compile(
    r"(?i)\.(?:pt|pth|ckpt|safetensors|bin|distcp)['\"]?(?: is| was)? not found|\b(?:file|path|folder|directory)\b.{0,160}\b(?:does not|doesn't|did not) exist|no such file"
)
_TO_BE_MADE = re.compile(r"Unable to (?:synchronously )?create file\b")
"""What HDF5 says of a file that it was to write, and whose folder is not there."""
_NOBODY_ANSWERS = "EOF when reading a line"
"""What ``input`` raises where a program asks a question and has no terminal."""
_OF_FILES = (
    "FileNotFoundError",
    "IsADirectoryError",
    "NotADirectoryError",
    "EOFError",
    "UnpicklingError",
    "JSONDecodeError",
)
_WEB = re.compile(r"huggingface|wandb|https?://|urllib3|HTTPS?Connection|Max retries|proxy|SSL|certificate|hub\b", re.I)
_WORDS: tuple[tuple[str, Category], ...] = (
    (r"incompatible with (?:the )?layer\b", "usercode"),
    (r"[Oo]ut of memory|using all available RAM|more memory than is available|(?:[Ff]ailed|[Uu]nable) to allocate (?:\w+ )?(?:memory|HBM|[\d.]+ ?[KMG]i?B)|[Cc]annot allocate memory|[Cc]an't allocate memory|(?:[Nn]ot enough|have enough|[Ii]nsufficient|No available) (?:\w+ )?(?:memory|RAM|VRAM)|[Ff]ree (?:GPU )?memory\b.{0,80} (?:less|lower|smaller) than|\bOOM\b|RESOURCE_EXHAUSTED: .*(?i:memory|reserve|alloc|hbm)",
     "oom"),
    (r"Memory critical error by agent|\bECC\b|NVLink|fallen off the bus|\bXid\b|PCIe Bus Error|hardware (?:stack )?error|GPU is lost", "hardware"),
    (r"is not in the [\w:. ]{1,60} registry\b|\bis not registered\b|found in '?\w+'? registry\b|third-party dynamic library|cuDNN failed to initialize|NPU function error|[Uu]nable to load \w+ library|[Cc]ould not load (?:dynamic )?library|Numpy is not available|[Ii]nvalid device id\b|device < num_gpus|[Nn]o operator found for|(?i:\bno gpus found)|support faster communication broadband"
     r"|[Cc]ouldn't find appropriate backend|VersionConflict|can only be used on CUDA|doesn't support bf16|command '\S+' failed|no kernel image|not compiled with|undefined symbol|cannot open shared object|No module named|cannot import name"
     r"|driver version|incompatible (?:version|with)|unsupported toolchain|invalid device ordinal|No CUDA GPUs"
     r"|not compatible with the installed|compiled (?:against (?:API )?version|with different)|binary incompatibility|(?:pip|conda) install|[Hh]ave you installed"
     r"|[Pp]lease (?:install|upgrade|downgrade)|operator \w+::\w+ does not exist|Descriptors cannot be created|(?i:no gpu (?:found|available|detected))"
     r"|is not currently imported|does not recognize this architecture|Unrecognized configuration class|Failed to import"
     r"|less than the minimum required|does not match the version|was removed in the \w+ [\d.]+|requires `?[\w.-]+[<>=]=|cudaGetDeviceCount"
     r"|loaded in [48]-bit|with arguments from the '\w+' backend|[Mm]icro[ _]batch|KV cache is needed"
     r"|(?i:(?:requires?|needs?|expect\w*|request\w*|ask\w* for|specified|set to) (?:at least )?\d+ (?:gpu|device|card)s?\b.{0,40}\b(?:only|but|found|available))"
     r"|(?i:\bonly \d+ (?:gpu|device|card)s? (?:is |are )?(?:available|visible|found|detected))|[Nn]ot available in this (?:library|build|version)"
     r"|is not recognized|command not found|not installed|no NVIDIA driver|gated repo|failed to listen on|address already in use|host not found|Name or service not known"
     r"|name resolution|(?i:not enough resources)|disk I/O error|database is locked|unable to open database file", "environment"),
    (r"device-side assert|illegal memory access|CUBLAS_STATUS|CUDNN_STATUS|into a non-existent directory", "usercode"),
    (r"[Ss]tale file handle|No space left|[Dd]isk quota|Input/output error|size mismatch for|state_dict|PytorchStream(?:Reader|Writer)|inline_container"
     r"|deserialize object|storage has wrong byte size|TensorSliceReader|[Cc]heckpoint|safetensors|Parent directory \S+ does not exist", "checkpoint"),
    (r"output with shape \[1, \d+, \d+\] doesn't match the broadcast shape \[3, |\b[Nn]o (?:images?|labels?|samples?|annotations?|(?:valid )?data) (?:were |was )?(?:found )?in\b"
     r"|shared memory object|shared file mapping|OpenCV\(|[Ff]ound 0 (?:files|images|samples|valid)|could not convert string to|(?i:(?:image|video|audio|sample|label) not found)"
     r"|not in the dataset|Unknown split|Failed to open the input|n_samples=|label class \d+ exceeds|DataLoader|image file|truncated|\b[Dd]ataset\b|\bdecode\b|corrupt", "data"),
    (r"\bnan\b|\bNaN\b|\bNAN\b|non-?finite|\binf\b|not positive-?definite|singular matrix", "numerical"),
    (r"mismatch between collectives|\bN?[HR]?CCL\b|[Hh]ccl[A-Z]\w+|gloo|rendezvous|TCPStore|store.based barrier|(?:[Tt]imed|TIMED) out|heartbeat time-?out|[Ss]ocket [Tt]imeout|while trying to connect|[Cc]onnection (?:refused|reset|closed)|[Bb]roken pipe|hostname",
     "network"),
    (r"CANCELLED|[Pp]reempt|[Rr]equeu(?:e|ing)\b|time limit|TIME LIMIT|SIGTERM", "preemption"),
    (r"torch\._dynamo|inductor|\bcompiler bug\b|Failed to compile|\bptxas\b|[Tt]riton|[Ee]rror (?:building|compiling) extension|[Cc]ompil(?:ation|er) (?:error|failed)|nvrtc|NVRTC", "compile"),
)  # fmt: skip
# What Google's libraries (gRPC, XLA, TensorFlow) call a kind of failure, where the message says nothing more.
_STATUS = re.compile(r"^([A-Z]+(?:_[A-Z]+)*): |\bStatusCode\.([A-Z_]+)\b")
_STATUSES: dict[str, Category] = {
    "RESOURCE_EXHAUSTED": "oom",
    "UNAVAILABLE": "network",
    "DEADLINE_EXCEEDED": "network",
    "INVALID_ARGUMENT": "usercode",
    "OUT_OF_RANGE": "data",
    "DATA_LOSS": "data",
    "PERMISSION_DENIED": "environment",
    "UNAUTHENTICATED": "environment",
    "UNIMPLEMENTED": "environment",
    "INTERNAL": "other",
    "UNKNOWN": "other",
}
_COMPUTES = re.compile(r"torch/(?:nn/(?:modules|functional|parallel)|autograd|functional|_tensor)\b")
_CARDS = re.compile(r"torch(?:_npu)?/(?:cuda|npu|xpu)/__init__\.py$")
"""Where a card is asked for: what is raised there, and was cut off, is mostly that there is none, or not so many."""
_OPTIMIZER = re.compile(r"torch/optim/\w+\.py$|(?:apex/optimizers|bitsandbytes/optim)/")
_SIZES = re.compile(r"(?i)\bsizes? (?:of tensor|mismatch|do(?:es)? not match)|shape mismatch|must match the size")
_PIPES = re.compile(r"/multiprocessing/(?:connection|managers|queues|resource_sharer|reduction)\.py$")
"""How a process hears from another one: where it hears nothing more, that one is gone."""
_ENDED = re.compile(r"\[WinError (?:109|232|233)\]")
"""What Windows says of a pipe between two processes of which one is gone."""
_GONE = ("EOFError", "BrokenPipeError", "ConnectionResetError", "ConnectionRefusedError")
_CHECKED = re.compile(r"\bCheck failed: ")
"""How Google's libraries and glog abort where they meet a state that they do not expect."""
_OF_RAY = re.compile(r"\bRayTaskError\(([A-Za-z_]\w*)\):")
"""What ray raises where a task raised: the class of that stands in brackets."""
_CLASS = r"(?:[A-Za-z_]\w*\.)*_*[A-Z]\w*"
_RAISES = re.compile(rf"^raise (?P<name>{_CLASS})(?:\(\s*(?:[rf]{{0,2}}['\"](?P<said>[^'\"]*))?|$)")
_LINE = re.compile(
    rf"(?:^|[\s:\]])(?P<told>{_CLASS}(?:Error|Exception|Interrupt|Warning|Timeout|Conflict)|(?:[A-Za-z_]\w*\.)*BadZipFile): ?(?P<message>.*)$"
    rf"|^(?P<alone>{_CLASS}(?:Error|Interrupt))$"
    rf"|^(?P<shown>{_CLASS}(?:Error|Exception))\((?P<said>.*)\)$"
)
_BAD = re.compile(
    r"^[EF]\d{4} \d\d:\d\d:\d\d|\d: F \w+/\S+:\d+\]|\b(?:[Ee]rror|ERROR|[Ff]atal|FATAL|CRITICAL|[Ff]ailed|FAILED|NCCL WARN)\b"
)


_REPEATED = re.compile(r"\bError executing job with overrides:")
"""Hydra repeats the command line where a program raised: words of it say nothing of why."""
_GOES_ON = re.compile(
    r"^\W*(?i:warn(?:ing)?)\b|(?i:\b(?:skipp(?:ed|ing)|ignor(?:ed|ing)|fall(?:ing|s)? back|retry(?:ing)?|retries|trying again|will try)\b)"
)
"""What a program prints of something that did not work and that it does without, or does again."""
_SETTINGS = re.compile(
    r"(?:site|dist)-packages/.*(?:training_args\w*|/arg(?:ument)?s?|hf_argparser|configuration_\w+|/config(?:uration|s)?|/validat\w+|parallel_state|/launch\w*|/settings?)\.py$"
)
"""Where a library looks at what it was set to: what it finds wrong there are settings."""
_NEAREST = 3
_CALLS = re.compile(r"(\w+)\(")
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


_LIBRARY = re.compile(r"(?:site|dist)-packages[/\\]|/lib/python\d")


def at_import(raised: Raised) -> bool:
    """Return whether an exception was raised while a library was imported: its parts, or what it needs, do not suit each other."""
    if not raised.frames:
        return False
    inner = raised.frames[-1]
    return inner.function == "<module>" and _LIBRARY.search(inner.path) is not None


def _by_tracker(raised: Raised) -> bool:
    """Return whether a tracker raised it, itself or in what it writes to and reads from in a thread of its own."""
    frames = raised.frames[-1:] if raised.frames and not _in_thread(raised) else raised.frames
    return any(_TRACKERS.search(frame.path.replace("\\", "/")) for frame in frames)


def _in_thread(raised: Raised) -> bool:
    """Return whether a thread ended so, and nothing but the thread."""
    return raised.frames[0].function.startswith("_bootstrap") and raised.frames[0].path.endswith("threading.py")


def category_of_file(path: str) -> Category | None:
    """Return what a file is by its name: of a data set, a checkpoint, a program or library; None where it does not tell."""
    return _of_file(path)


def category_of_frames(raised: Raised) -> Category | None:
    """Return what an exception is about by where it was raised; None where no frame tells."""
    return _of_frames(raised)


def meaning_of(raised: Raised) -> Meaning:
    """Return what an exception that no signature took is taken for."""
    wrapped = _OF_RAY.search(raised.hit.text)
    name = wrapped[1] if wrapped is not None else raised.exception.rpartition(".")[2].lstrip("_")
    if not name and (next_one := _about_to_raise(raised)) is not None:
        return meaning_of(next_one)
    if not name:
        launched = any(
            _LAUNCHERS.search(frame.path.replace("\\", "/")) for frame in (*raised.frames[:1], *raised.frames[-1:])
        )
        title = (
            "a traceback that is cut off before its exception"
            if not launched
            else "a launcher's own traceback, cut off"
        )
        category = "other" if launched else _of_frames(raised) or _computing(raised) or "other"
        return Meaning(title, category, "teardown" if launched else "cascade")
    title = f"{name}: {raised.message}" if raised.message else name
    title = title.split("\n", 1)[0][:200]
    if raised.frames and _OF_LAUNCHER.search(raised.frames[-1].path.replace("\\", "/")):
        if name in _SAID_OF_ARGUMENTS and not _STOPPING.search(raised.frames[-1].function):
            return Meaning(title, "environment", "root")
        return Meaning(title, "other", "teardown")
    if (
        raised.frames
        and name in _SAID_OF_ARGUMENTS
        and _OF_AN_ENDPOINT.search(raised.frames[-1].path.replace("\\", "/"))
    ):
        return Meaning(title, "environment", "root")
    if (name == "FileNotFoundError" and _TO_BE_MADE.search(raised.message)) or raised.message == _NOBODY_ANSWERS:
        return Meaning(title, "usercode", "root")
    if name == "CalledProcessError" and (called := _of_frames(raised)) in ("compile", "environment"):
        # It is no process of the job that ended, but a program that a library called.
        return Meaning(title, called, "root")
    if _by_tracker(raised) and _in_thread(raised):
        return Meaning(title, "environment", "benign")
    about = next((category for pattern, category in _PACKAGES if re.match(pattern, raised.exception)), None)
    if about is not None:
        return Meaning(title, about, "root")
    if name in _GONE and (
        _ENDED.search(raised.message) or (raised.frames and _PIPES.search(raised.frames[-1].path.replace("\\", "/")))
    ):
        return Meaning(title, _of_frames(raised) or "other", "cascade")
    for pattern, category, role in _CLASSES:
        if re.fullmatch(pattern, name):
            if category == "network" and _by_tracker(raised):
                # Its own process is gone: it went with the program, or the program goes on without it.
                return Meaning(title, "environment", "teardown")
            if category in ("network", "environment") and _WEB.search(raised.message):
                return Meaning(title, "environment", "root")
            if name in _OF_FILES and (named := _of_file(raised.message) or _of_frames(raised)):
                return Meaning(title, named, role)
            if role == "root" and category in ("environment", "data"):
                return Meaning(title, _of_words(raised.message) or _of_frames(raised) or category, role)
            return Meaning(title, category, role)
    status = _STATUS.search(raised.message)
    if status is not None and _of_words(raised.message) is None and (status[1] or status[2]) in _STATUSES:
        return Meaning(title, _STATUSES[status[1] or status[2]], "root")
    named = next((category for pattern, category in _NAMED if re.search(pattern, name)), None)
    missing = _of_file(raised.message) if _MISSING.search(raised.message) else None
    return Meaning(title, _of_words(raised.message) or missing or _of_frames(raised) or named or "usercode", "root")


def _about_to_raise(raised: Raised) -> Raised | None:
    """Return the exception that the last line of a traceback which is cut off raises; None where it raises none."""
    found = _RAISES.search(raised.frames[-1].code) if raised.frames else None
    if found is None:
        return None
    return msgspec.structs.replace(raised, exception=found["name"], message=found["said"] or "")


def _computing(raised: Raised) -> Category | None:
    """Return that a network computed where a traceback is cut off: what is raised there is mostly about its shapes and devices."""
    inner = raised.frames[-1].path.replace("\\", "/") if raised.frames else ""
    return "usercode" if _COMPUTES.search(inner) else None


def said_of(message: str) -> Category | None:
    """Return what a message is about by its words; None where they do not tell."""
    return _of_words(message)


def goes_on(text: str) -> bool:
    """Return whether a line tells of something that a program does without, or does again."""
    return _GOES_ON.search(text) is not None


def meaning_of_line(text: str) -> Meaning | None:
    """Return what a line is taken for that looks like trouble and that nothing took; None where nothing tells."""
    if _REPEATED.search(text) or _GOES_ON.search(text):
        return None
    match = _LINE.search(text)
    if match is not None:
        name = match["told"] or match["alone"] or match["shown"]
        if name.endswith("Warning"):
            return None
        hit = Hit(signature="", file=0, line=0, offset=0, text=text)
        return meaning_of(Raised(exception=name, message=match["message"] or match["said"] or "", frames=(), hit=hit))
    printed = printed_by(text)
    if printed is not None:
        return Meaning(text.strip()[:200], *printed)
    category = _of_words(text) if _BAD.search(text) or text.lstrip().startswith("what():") else None
    if category is None and _CHECKED.search(text):
        return Meaning(text.strip()[:200], "other", "cascade")
    return Meaning(text.strip()[:200], category, "root") if category is not None else None


def _of_words(message: str) -> Category | None:
    for pattern, category in _WORDS:
        if re.search(pattern, message):
            return category
    return None


def _of_file(message: str) -> Category | None:
    return next((category for pattern, category in _FILES if re.search(pattern, message)), None)


def _of_frames(raised: Raised) -> Category | None:
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
    for frame in reversed(raised.frames):
        path = _within(frame.path.replace("\\", "/"))
        if told and _TALKING.search(path):
            return "network"
        if _SPLITS.search(path) or _FROM_NUMBERS.search(frame.function):
            continue
        for pattern, category in _FUNCTIONS:
            if re.search(pattern, frame.function):
                return category
        for pattern, category in _PLACES:
            if re.search(pattern, path):
                return category
        if frame.function in _OF_A_STEP:
            return None
    return None


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
    library = _LIBRARY.search(path)
    if library is not None:
        return path[library.end() - 1 :]
    return "/".join(path.rsplit("/", _NEAREST)[-_NEAREST:])
