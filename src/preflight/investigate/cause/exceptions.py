"""What an exception means that no signature took: by where it was raised, then by its class.

It is the last resort, and weighs little: the class alone says more of the symptom than of the cause.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

from preflight.investigate.cause.frames import LIBRARY, category_of_frames, category_of_logger, computing
from preflight.investigate.cause.printers import printed_by
from preflight.investigate.cause.refusals import refused, refused_in_words
from preflight.investigate.cause.samples import names_samples
from preflight.investigate.cause.words import WEB, category_of_file, goes_on, said_of
from preflight.vocabulary.log import Hit, Raised
from preflight.vocabulary.signature import Category, Role


class Meaning(NamedTuple):
    """What it is taken for."""

    title: str
    category: Category
    role: Role


# A launcher raises when one of its processes has failed; what it raises says no more than that.
_LAUNCHERS = re.compile(
    r"torch/distributed/(run|launch|launcher/api|elastic/.+)\.py$|accelerate/commands/|deepspeed/launcher/|(^|/)runpy\.py$"
    r"|/bin/(torchrun|accelerate|deepspeed)$|^<frozen runpy>$"
)
# What a launcher raises while it stops its processes says nothing of why they stop; of its own arguments it says what is wrong.
_OF_LAUNCHER = re.compile(
    r"deepspeed/launcher/|torch/distributed/(?:run|launch|launcher/api)\.py$|accelerate/commands/launch"
)
_OF_AN_ENDPOINT = re.compile(r"torch/distributed/elastic/rendezvous/\w+\.py$|torch/distributed/rendezvous\.py$")
"""Where the endpoint and the settings that a launcher was given are taken apart."""
_WRONG_ARGUMENT = ("ValueError", "TypeError", "ArgumentError")
_OF_SPAWN = re.compile(r"torch/multiprocessing/spawn\.py$")
"""Where a parent raises what a process of its own had raised, which stands below, behind an empty line."""
_STOPPING = re.compile(r"handler|kill|terminat|stop|close|shutdown")
_SAID_OF_ARGUMENTS = ("ValueError", "TypeError", "AssertionError", "FileNotFoundError", "ArgumentError")
_CLASSES: tuple[tuple[str, Category, Role], ...] = (
    (r"(CUDA)?OutOfMemoryError|MemoryError|ResourceExhausted(?:Error)?", "oom", "root"),
    (r"NameError|UnboundLocalError|SyntaxError|IndentationError|TabError|RecursionError", "usercode", "root"),
    (r"\w*(?:Dynamo|Inductor|Triton|Compil)\w*(?:Error|Failed|Exception)", "compile", "root"),
    (r"HTTPError|URLError|SSLError|MaxRetryError|NewConnectionError|ProxyError|ReadTimeout(Error)?|ConnectTimeout|HfHubHTTPError"
     r"|RepositoryNotFoundError|GatedRepoError|LocalEntryNotFoundError|HFValidationError|\w*CommError|UsageError"
     r"|ValidationError|ConfigAttributeError|ConfigKeyError|MissingMandatoryValue|\w*CompositionException", "environment", "root"),
    (r"ImportError|ModuleNotFoundError|EnvironmentError|VersionConflict|PackageNotFoundError", "environment", "root"),
    (r"Dist(Network|Store|Backend)?Error|HorovodInternalError|NCCLError|[nrh]ccl\w*Error|ConnectionError|ConnectionResetError|BrokenPipeError"
     r"|ConnectionRefusedError|TimeoutError|UnavailableError|AbortedError|DeadlineExceeded\w*|\w*R[Pp][Cc]Error|MultiThreadedRendezvous|RendezvousError\w*", "network", "cascade"),
    (r"FailedJobError|UncompletedJobError|ExecuteUserScriptError|AlgorithmError|UnexpectedStatusException", "other", "teardown"),
    (r"ChildFailedError|ProcessRaisedException|ProcessExitedException|RayTaskError|CalledProcessError|TuneError"
     r"|RayActorError|ActorDiedError|WorkerCrashedError|NodeDiedError|ActorUnavailableError|WorkerGroupError", "other", "teardown"),
    (r"CellExecutionError|PapermillExecutionError", "other", "teardown"),
    (r"SignalException|KeyboardInterrupt|Preempted\w*|Terminated", "preemption", "teardown"),
    (r"SystemExit", "other", "teardown"),
    (r"FloatingPointError|ZeroDivisionError|OverflowError|LinAlgError|\w*(Nan|NaN|Inf)\w*(Error|Exception)", "numerical", "root"),
    (r"UnicodeDecodeError|JSONDecodeError|StopIteration|EOFError|UnpicklingError|PicklingError|ArrowInvalid|BadZipFile|ReadError"
     r"|UnidentifiedImageError|ParserError|ParseError|BadGzipFile|LZMAError", "data", "root"),
    (r"PermissionError|FileNotFoundError|FileExistsError|OSError|IOError|ArgumentError|ConfigError|\w*ConfigurationError|ScannerError"
     r"|\w*Credentials\w*|ClientError|EndpointConnectionError|MissingConfigException|Timeout|CalledProcessError", "environment", "root"),
)  # fmt: skip
_SAYS: tuple[tuple[str, Category], ...] = (
    (r"\w*(?:Checkpoint|Safetensors)\w*(?:Error|Exception)", "checkpoint"),
    (r"\w*(?:Configuration|Environment)\w*(?:Error|Exception)|\w*Missing\w*Dependenc\w*|\w*PortInUse\w*", "environment"),
)  # fmt: skip
"""Classes whose names say what it is about, wherever they are raised."""
# The package that defines an exception says what it is about, where its class has a name of its own.
_PACKAGES: tuple[tuple[str, Category], ...] = (
    (r"(?:PIL|lmdb|h5py|pyarrow|datasets|webdataset|soundfile|librosa|torchaudio|decord|av|tarfile|streaming|tokenizers|pandas)\.", "data"),
    (r"(?:safetensors|safetensors_rust|orbax|tensorstore)\.|torch\.distributed\.checkpoint\.", "checkpoint"),
    (r"torch\._(?:dynamo|inductor)\.|torch\.(?:jit\.frontend|fx\.proxy)\.|triton\.", "compile"),
    (r"(?:omegaconf|hydra|yaml|pydantic\w*|jsonargparse|click|tyro|botocore|boto3|google\.(?:auth|api_core)|azure|huggingface_hub|requests"
     r"|urllib3|httpx|aiohttp|wandb|mlflow|filelock|pkg_resources|importlib)\.", "environment"),
)  # fmt: skip
# Of a class that a program or a library made for itself, the words of its name say what it is about.
_NAMED: tuple[tuple[str, Category], ...] = (
    (r"Checkpoint|StateDict|Safetensor", "checkpoint"),
    (r"Dataset|DataLoader|Image|Audio|Video|Decod|Decompress|Corrupt|Codec|Schema", "data"),
    (r"API|H(?:TTP|ttp)|Auth|Credential|Permission|Quota|RateLimit|Throttl|Config|Setting|Version|Mismatch|Dependenc|Install|Licen[cs]e", "environment"),
    (r"Network|Rendezvous|Timeout|TimedOut|Connect|Unreachable|Socket|R(?:PC|pc)(?![a-z])", "network"),
)  # fmt: skip
_CHECKS = ("ValueError", "AssertionError", "NotImplementedError")
"""What is raised by those who look at what they were set to; a RuntimeError is as often of a computation."""
_RECOMPUTED = re.compile(r"\butils\.checkpoint\.")
_TRACKERS = re.compile(
    r"(?:site|dist)-packages/(?:wandb|swanlab|mlflow|comet_ml|neptune|clearml|aim|trackio|tensorboard\w*)/|/torch/utils/tensorboard/"
)
"""What watches a training, from threads of its own: the training goes on without it."""
_MISSING = re.compile(
    r"(?i)\.(?:pt|pth|ckpt|safetensors|bin|distcp)['\"]?(?: is| was)? not found|\b(?:file|path|folder|directory)\b.{0,160}\b(?:does not|doesn't|did not) exist|no such file"
)
_TO_BE_MADE = re.compile(r"Unable to (?:synchronously )?create file\b")
"""What HDF5 says of a file that it was to write, and whose folder is not there."""
_LONGEST_TITLE = 200
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
_PIPES = re.compile(r"/multiprocessing/(?:connection|managers|queues|resource_sharer|reduction)\.py$")
"""How a process hears from another one: where it hears nothing more, that one is gone."""
_ENDED = re.compile(r"\[WinError (?:109|232|233)\]")
"""What Windows says of a pipe between two processes of which one is gone."""
_GONE = ("EOFError", "BrokenPipeError", "ConnectionResetError", "ConnectionRefusedError")
_PEER_LEFT = re.compile(
    r"(?:\[Errno \d+\] )?(?i:connection (?:was )?(?:reset|closed) by (?:the )?(?:remote )?(?:peer|host))\b"
)
"""What is said of the other end, and no more: it closed the connection, or is gone."""
_REFUSES = re.compile(r"\b(?:not supported|does not support|only supports|not a member of|does not exist)\b")
"""What is said of the arguments of a collective, and of no connection."""
_ORDER = re.compile(
    r"(?i)\bmust (?:first )?call\b|\bmust be called (?:before|after)\b|\b(?:before|after) calling\b|\bcall `?[\w.]+(?:\(\))?`?,? (?:first|before)\b"
)
"""In which order a program has to call what a library offers."""
_CHECKED = re.compile(r"\bCheck failed: ")
"""How Google's libraries and glog abort where they meet a state that they do not expect."""
_OF_RAY = re.compile(r"\bRayTaskError\(([A-Za-z_]\w*)\):")
"""What ray raises where a task raised: the class of that stands in brackets."""
_IN_ITS_WORDS = re.compile(r"(KeyboardInterrupt)(?:: ?(?:<EMPTY MESSAGE>)?)?\s*(?:\n|$)")
"""What pybind11 makes of an interrupt that comes while a module of C++ is loaded: a RuntimeError that says nothing else."""
_ONLY_A_CODE = re.compile(
    r"(?i)^[^:\n]{0,120}\b(?:exited(?: with)?(?: an?)?(?: (?:non-?zero|error|bad))?(?: exit| return)?"
    r"|(?:ended|failed|returned|terminated|finished|died)(?: with)?(?: an?)?(?: (?:non-?zero|bad))?(?: exit| return| non-?zero))"
    r"[ -]?(?:status|code)\b[ :=]{1,3}-?(?:1?\d{1,2}|2[0-4]\d|25[0-5])\.?$"
)
"""What a program raises of another one that it started, of which it knows no more than the code; those of HTTP are larger, and what a
library calls fails with a code that is no exit."""
_PLAIN = ("RuntimeError", "Exception", "ValueError", "OSError", "SystemError", "ChildProcessError")
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
_LOGGED = re.compile(
    r"^(?:.{0,80}[\s\[|(-])?(?P<name>[a-z_]\w*(?:\.\w+)+)[\s\]|)-].{0,40}\b(?:ERROR|CRITICAL|FATAL)\b|\b(?:ERROR|CRITICAL|FATAL)[:\s\]|-]+\[?(?P<named>[a-z_]\w*(?:\.\w+)+)[:\]\s]"
)
"""A line at the level of an error, of a logger that bears the name of its module."""
REPEATED = re.compile(r"\bError executing job with overrides:")
"""Hydra repeats the command line where a program raised: words of it say nothing of why."""


def _by_tracker(raised: Raised) -> bool:
    """Return whether a tracker raised it, itself or in what it writes to and reads from in a thread of its own."""
    frames = raised.frames[-1:] if raised.frames and not in_thread(raised) else raised.frames
    return any(_TRACKERS.search(frame.path.replace("\\", "/")) for frame in frames)


def in_thread(raised: Raised) -> bool:
    """Return whether a thread ended so, and nothing but the thread."""
    return raised.frames[0].function.startswith("_bootstrap") and raised.frames[0].path.endswith("threading.py")


def _printed_by_tracker(raised: Raised) -> bool:
    """Return whether a traceback begins within a tracker, which caught it and printed it: no script and no thread ended so."""
    paths = [frame.path.replace("\\", "/") for frame in raised.frames]
    whole = raised.begins is not None and all(LIBRARY.search(path) for path in paths)
    return whole and _TRACKERS.search(paths[0]) is not None and raised.frames[0].function != "<module>"


def class_of(raised: Raised) -> str:
    """Return the class of an exception, without its module; that of the one which a module of C++ hands on in words."""
    handed_on = _IN_ITS_WORDS.match(raised.message)
    return handed_on[1] if handed_on is not None else raised.exception.rpartition(".")[2]


def from_a_pipe(raised: Raised) -> bool:
    """Return whether an exception was raised where a process hears from another one of the same machine, by a pipe."""
    return bool(raised.frames) and _PIPES.search(raised.frames[-1].path.replace("\\", "/")) is not None


def meaning_of(raised: Raised) -> Meaning:
    """Return what an exception that no signature took is taken for."""
    wrapped = _OF_RAY.search(raised.hit.text)
    name = wrapped[1] if wrapped is not None else class_of(raised).lstrip("_")
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
        category = "other" if launched else category_of_frames(raised) or computing(raised) or "other"
        return Meaning(title, category, "teardown" if launched else "cascade")
    title = f"{name}: {raised.message}" if raised.message else name
    title = _shown(title.split("\n", 1)[0])
    if raised.frames and _OF_LAUNCHER.search(raised.frames[-1].path.replace("\\", "/")):
        told = name in _SAID_OF_ARGUMENTS or said_of(raised.message) == "environment"
        if told and not _STOPPING.search(raised.frames[-1].function):
            return Meaning(title, "environment", "root")
        return Meaning(title, "other", "teardown")
    if raised.frames and name in _WRONG_ARGUMENT and _OF_AN_ENDPOINT.search(raised.frames[-1].path.replace("\\", "/")):
        return Meaning(title, "environment", "root")
    if (name == "FileNotFoundError" and _TO_BE_MADE.search(raised.message)) or raised.message == _NOBODY_ANSWERS:
        return Meaning(title, "usercode", "root")
    if (
        name == "Exception"
        and not raised.message
        and raised.frames
        and _OF_SPAWN.search(raised.frames[-1].path.replace("\\", "/"))
    ):
        return Meaning(title, "other", "teardown")
    if name == "CalledProcessError" and (called := category_of_frames(raised)) in ("compile", "environment"):
        # It is no process of the job that ended, but a program that a library called.
        return Meaning(title, called, "root")
    if _by_tracker(raised) and (in_thread(raised) or _printed_by_tracker(raised)):
        return Meaning(title, "environment", "benign")
    said = next((category for pattern, category in _SAYS if re.fullmatch(pattern, name)), None)
    if said is not None and name != "EnvironmentError" and not _RECOMPUTED.search(raised.exception):
        return Meaning(title, said, "root")
    about = next((category for pattern, category in _PACKAGES if re.match(pattern, raised.exception)), None)
    if about is not None:
        return Meaning(title, about, "root")
    if name in _GONE and (_ENDED.search(raised.message) or from_a_pipe(raised)):
        return Meaning(title, category_of_frames(raised) or "other", "cascade")
    if name in _PLAIN and _PEER_LEFT.match(raised.message) and category_of_frames(raised) in (None, "network"):
        return Meaning(title, "network", "cascade")
    for pattern, category, role in _CLASSES:
        if re.fullmatch(pattern, name):
            if category == "network" and _by_tracker(raised):
                # Its own process is gone: it went with the program, or the program goes on without it.
                return Meaning(title, "environment", "teardown")
            if name == "HorovodInternalError" and _REFUSES.search(raised.message):
                return Meaning(title, "usercode", "root")
            if category in ("network", "environment") and WEB.search(raised.message):
                return Meaning(title, "environment", "root")
            if name in _OF_FILES and (named := category_of_file(raised.message) or category_of_frames(raised)):
                return Meaning(title, named, role)
            if role == "root" and category in ("environment", "data"):
                return Meaning(title, said_of(raised.message) or category_of_frames(raised) or category, role)
            return Meaning(title, category, role)
    if name in _PLAIN and _ONLY_A_CODE.search(raised.message) and category_of_frames(raised) is None:
        return Meaning(title, "other", "teardown")
    status = _STATUS.search(raised.message)
    if status is not None and said_of(raised.message) is None and (status[1] or status[2]) in _STATUSES:
        return Meaning(title, _STATUSES[status[1] or status[2]], "root")
    recomputed = _RECOMPUTED.search(raised.exception) is not None
    named = next((category for pattern, category in _NAMED if re.search(pattern, name) and not recomputed), None)
    missing = category_of_file(raised.message) if _MISSING.search(raised.message) else None
    return Meaning(
        title,
        _said_by(raised.message)
        or missing
        or ("usercode" if _ORDER.search(raised.message) else None)
        or category_of_frames(raised)
        or named
        or _refusal(raised, name)
        or "usercode",
        "root",
    )


def _said_by(message: str) -> Category | None:
    """Return what a message is about by its words.

    What a program prints right behind a traceback cannot be told from further lines of the message: numbers in these are the
    message's where its first line announces them.
    """
    first, _, more = message.partition("\n")
    told = said_of(first)
    if told is not None or not more:
        return told
    told = said_of(more)
    return None if told == "numerical" and not first.rstrip().endswith(":") else told


def _refusal(raised: Raised, name: str) -> Category | None:
    """Return what a library refuses, by where it did; of a line alone, by what it names: a setting, or samples."""
    if raised.frames:
        return refused(raised)
    refuses = refused_in_words(raised.message) if name in _CHECKS else None
    return refuses or ("data" if names_samples(raised.message) else None)


def _about_to_raise(raised: Raised) -> Raised | None:
    """Return the exception that the last line of a traceback which is cut off raises; None where it raises none."""
    found = _RAISES.search(raised.frames[-1].code) if raised.frames else None
    if found is None:
        return None
    return msgspec.structs.replace(raised, exception=found["name"], message=found["said"] or "")


def meaning_of_line(text: str) -> Meaning | None:
    """Return what a line is taken for that looks like trouble and that nothing took; None where nothing tells."""
    if REPEATED.search(text) or goes_on(text):
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
    category = said_of(text) if _BAD.search(text) or text.lstrip().startswith("what():") else None
    logged = _LOGGED.search(text) if category is None else None
    if logged is not None and (of_module := category_of_logger(logged["name"] or logged["named"])) is not None:
        return Meaning(text.strip()[:200], of_module, "cascade")
    if category is None and _CHECKED.search(text):
        return Meaning(text.strip()[:200], "other", "cascade")
    return Meaning(text.strip()[:200], category, "root") if category is not None else None


_AS_AN_ERROR = re.compile(
    r"^.{0,80}?[\[|](?:ERROR|CRITICAL|FATAL)[\]|]|^.{0,80}?\s[-:|]\s*(?:ERROR|CRITICAL|FATAL)\s*[-:|]"
)
"""How loggers mark what they say at the level of an error."""
_DONE = re.compile(r"(?i)\b(?<!not )(?<!never )(?:done|finished|completed|processed|succeeded)\b")
"""That a program is through with its work: what failed in it is a count among others."""


def meaning_of_last_line(text: str) -> Meaning | None:
    """Return what the last word of a program is about where it tells of trouble, by the file or the samples that it names."""
    if REPEATED.search(text) or goes_on(text) or WEB.search(text) or _DONE.search(text):
        return None
    category = category_of_file(text) or ("data" if names_samples(text) else None)
    return Meaning(_shown(text.strip()), category, "root") if category is not None else None


def meaning_of_last_error(text: str) -> Meaning | None:
    """Return what the last word of a program is taken for that its logger says as an error, and that names nothing."""
    if (goes_on(text) or WEB.search(text) or _DONE.search(text)) and not REPEATED.search(text):
        return None
    return (
        Meaning(_shown(text.strip()), "other", "cascade")
        if _AS_AN_ERROR.search(text) or REPEATED.search(text)
        else None
    )


def _shown(text: str) -> str:
    """Return a line as the title of an event: a long one is cut off, and says so."""
    return text if len(text) <= _LONGEST_TITLE else text[: _LONGEST_TITLE - 3].rstrip() + "..."


def tells_of(text: str, raised: Raised) -> bool:
    """Return whether a line names an exception with its message."""
    name = raised.exception.rpartition(".")[2]
    return bool(name and raised.message) and name in text and raised.message in text
