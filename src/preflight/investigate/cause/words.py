"""What a message is about by its words, and a file by its name."""

from __future__ import annotations

import re

from preflight.vocabulary.signature import Category

# What a file that is not there, or cannot be read, is by its name.
_FILES: tuple[tuple[str, Category], ...] = (
    (r"(?:^|[/\\'\" ])(?:train(?:ing)?|val(?:id(?:ation)?)?|test)\.bin\b", "data"),
    (r"(?:^|[/\\'\" ])data_?sets?[/\\](?!\S*(?:site-packages|checkpoint|ckpt))\S+\.(?:bin|idx|txt|jsonl?|lst)\b", "data"),
    (r"(?:snapshot|checkpoint|ckpt|(?<!class_)(?<!sample_)(?<!edge_)weights)[^/\\\s]{0,200}\.(?:pkl|pickle|h5|npz)\b", "checkpoint"),
    (r"\.(pt|pth|ckpt|safetensors|bin|distcp)\b|checkpoint|state_dict", "checkpoint"),
    (r"\.(so|dll|dylib|py|cu|cpp|h|cuh|sif|sqsh|simg)\b|nvcc|ninja|CUDA_HOME|site-packages/\S+\.(json|txt)", "environment"),
    (r"\.(jpe?g|png|tiff?|bmp|webp|gif|wav|flac|mp3|mp4|avi|npy|npz|h5|hdf5|lmdb|mdb|parquet|arrow|csv|tsv|jsonl?|txt|tar|zip"
     r"|gz|mat|nii|pkl|pickle|tfrecord|list|idx)\b|\bdata(sets?)?/|/data(sets?)?\b|annotations?|/images?\b", "data"),
)  # fmt: skip
WEB = re.compile(r"huggingface|wandb|https?://|urllib3|HTTPS?Connection|Max retries|proxy|SSL|certificate|hub\b", re.I)
REGISTRY = re.compile(r"\bis not in the [\w:. ]{1,60} registry\b|\bis not registered\b|\bfound in '?\w+'? registry\b")
"""What a library makes out of a configuration, by its name, that nobody has made known to it."""
_WORDS: tuple[tuple[str, Category], ...] = (
    (r"incompatible with (?:the )?layer\b", "usercode"),
    (r"[Oo]ut of memory|using all available RAM|more memory than is available|(?:[Ff]ailed|[Uu]nable) to allocate (?:\w+ )?(?:memory|HBM|[\d.]+ ?[KMG]i?B)|memory isn't enough|[Cc]annot allocate memory|[Cc]an't allocate memory|(?:[Nn]ot enough|have enough|[Ii]nsufficient|No available) (?:\w+ )?(?:memory|RAM|VRAM)|[Ff]ree (?:GPU )?memory\b.{0,80} (?:less|lower|smaller) than|\bOOM\b|RESOURCE_EXHAUSTED: .*(?i:memory|reserve|alloc|hbm)",
     "oom"),
    (r"Memory critical error by agent|\bECC\b|NVLink|fallen off the bus|\bXid\b|PCIe Bus Error|hardware (?:stack )?error|GPU is lost", "hardware"),
    (REGISTRY.pattern + r"|third-party dynamic library|cuDNN failed to initialize|NPU function error|[Uu]nable to load \w+ library|[Cc]ould not load (?:dynamic )?library|Numpy is not available|[Ii]nvalid device id\b|device < num_gpus|[Nn]o operator found for|(?i:\bno gpus found)|support faster communication broadband"
     r"|[Cc]ouldn't find appropriate backend|VersionConflict|can only be used on CUDA|doesn't support bf16|command '\S+' failed|no kernel image|not compiled with|\bcompiles? with WITH_[A-Z]+|undefined symbol|cannot open shared object|No module named|cannot import name"
     r"|driver version|incompatible (?:version|with)|unsupported toolchain|invalid device ordinal|No CUDA GPUs"
     r"|not compatible with the installed|compiled (?:against (?:API )?version|with different)|binary incompatibility|(?:pip|conda) install|[Hh]ave you installed"
     r"|[Pp]lease (?:install|upgrade|downgrade)|operator \w+::\w+ does not exist|Descriptors cannot be created|(?i:no gpu (?:found|available|detected))"
     r"|is not currently imported|does not recognize this architecture|Unrecognized configuration class|Failed to import"
     r"|less than the minimum required|does not match the version|was removed in the \w+ [\d.]+|requires `?[\w.-]+[<>=]=|cudaGetDeviceCount"
     r"|loaded in [48]-bit|with arguments from the '\w+' backend|[Mm]icro[ _]batch|KV cache is needed"
     r"|(?i:(?:requires?|needs?|expect\w*|request\w*|ask\w* for|specified|set to) (?:at least )?\d+ (?:gpu|device|card)s?\b.{0,40}\b(?:only|but|found|available))"
     r"|(?i:\bonly \d+ (?:gpu|device|card)s? (?:is |are )?(?:available|visible|found|detected))|[Nn]ot available in this (?:library|build|version)"
     r"|(?i:\b(?:to be|must be|needs? to be|have|is|are|be) installed\b(?! (?:in|at|on) )|installed to use\b)|(?i:\brequires? (?:the |at least )?[`'\"]?[a-z][\w.-]*[`'\"]?(?: versions?)? ?(?:>=|==|<=|<|~=) ?v?\d+\.\d)"
     r"|(?i:\bversion (?:of \w+ )?(?:must be |should be |requirements? |is required |or |[\w.]+ (?:or|and) )(?:>|>=|higher|newer|later|above|greater|at least|is)\b|\b(?:or|and) (?:higher|newer|later|greater) (?:is |are )?(?:required|needed)|[\d.]+ or (?:higher|newer|later) (?:to|is|for)\b|\bminimum \w* ?version)"
     r"|(?i:\b(?:cuda|gpus?|rocm|xpu|tpu|npu|cuda extensions?) (?:is |are )?(?:required|needed)\b|\brequires? (?:an? )?(?:cuda (?:device|gpu|extensions?|\d)|gpus?\b|tpus?\b|compute capability)|\bcompute capability (?:of )?(?:>=|at least|\d))"
     r"|(?i:\benv(?:ironment)? var\w*\b.{0,80}\b(?:not set|not found|missing|must be set|should be set|expected|unset)|\b(?:is|was|are) not set\b.{0,60}\benv(?:ironment)? var|\bset (?:the )?['`\"]?\w+['`\"]? env(?:ironment)? var)|env (?:variable )?(?:is not|was not|not) set"
     r"|(?i:\b(?:could|can) ?not bind\b|\bfailed to bind\b|(?:port|address)\b.{0,40}\balready in use\b|another process is utilizing it|\bdoes not find the \w+ command)|(?i:\bnot (?:currently |yet )?supported on (?:windows|linux|mac|darwin|this (?:platform|device|hardware|gpu|system)))|(?i:\b(?:this|current(?: \w+)?) (?:device|gpu|hardware|platform) does(?:n't| not) support)"
     r"|(?i:\bdriver (?:can't|cannot|could not) be loaded\b|\bdevice \S+ is not visible\b)|(?i:\bmust be (?:>=|at least) ?v?\d+\.\d+\.\d|\bonly [\w-]+(?: with version)? ?>= ?v?\d+\.\d)|[Dd]istributed package (?:doesn't have|to be available)|[Mm]issing dependenc|\b[A-Z]+_HOME(?:_PATH)?\b.{0,80}(?:does not exist|not found)|accelerator is not available|[Bb]ackend is required|[Cc]urrent \w+ version does not support|Unable to initialize backend|[Uu]nsupported compute capability|[Mm]odel architectures? .{0,80}(?:are|is) not supported"
     r"|(?i:\bno (?:(?:hf|api|auth|access) token|credentials) (?:provided|found|was))"
     r"|is not recognized|command not found|not installed|no NVIDIA driver|gated repo|failed to listen on|address already in use|host not found|Name or service not known"
     r"|name resolution|(?i:not enough resources)|disk I/O error|database is locked|unable to open database file", "environment"),
    (r"device-side assert|illegal memory access|CUBLAS_STATUS|CUDNN_STATUS|into a non-existent directory", "usercode"),
    (r"[Ss]tale file handle|[Nn]o space left|[Dd]isk quota|Input/output error|size mismatch for|state_dict|PytorchStream(?:Reader|Writer)|inline_container"
     r"|deserialize object|storage has wrong byte size|TensorSliceReader|(?<!utils\.)(?<!gradient[_ -])(?<!activation[_ -])[Cc]heckpoint(?!\(|able\b|ing is not\b)|safetensors|Parent directory \S+ does not exist", "checkpoint"),
    (r"output with shape \[1, \d+, \d+\] doesn't match the broadcast shape \[3, |\b[Nn]o (?:images?|labels?|samples?|annotations?|(?:valid )?data) (?:were |was )?(?:found )?in\b"
     r"|shared memory object|shared file mapping|OpenCV\(|[Ff]ound 0 (?:files|images|samples|valid)|could not convert string to|(?i:(?:image|video|audio|sample|label) not found)"
     r"|not in the dataset|[Uu]nable to (?:synchronously )?open object|[Cc]ouldn't cast\b|\] not in index\b|Unknown split|Failed to open the input|n_samples=|label class \d+ exceeds|DataLoader|image file|truncated|\b[Dd]ataset\b|\bdecode\b|corrupt", "data"),
    (r"\bnan\b|\bNa[Nn]s?\b|\bNAN\b|non-?finite|\binf\b(?! checks)|not positive-?definite|singular matrix", "numerical"),
    (r"mismatch between collectives|\bN?[HR]?CCL\b|[Hh]ccl[A-Z]\w+|gloo|rendezvous|TCPStore|store.based barrier|(?:[Tt]imed|TIMED) out|heartbeat time-?out|[Ss]ocket [Tt]imeout|while trying to connect|[Cc]onnection (?:refused|reset|closed)|[Bb]roken pipe|hostname",
     "network"),
    (r"CANCELLED|[Pp]reempt|[Rr]equeu(?:e|ing)\b|time limit|TIME LIMIT|SIGTERM", "preemption"),
    (r"torch\._dynamo|inductor|\bcompiler bug\b|[Ff]ailed to compile|\bptxas\b|[Tt]riton|[Ee]rror (?:building|compiling) extension|[Cc]ompil(?:ation|er) (?:error|failed)|nvrtc|NVRTC", "compile"),
)  # fmt: skip
_GOES_ON = re.compile(
    r"^\W*(?i:warn(?:ing)?)\b|(?i:\b(?:skipp(?:ed|ing)|ignor(?:ed|ing)|fall(?:ing|s)? back|retry(?:ing)?|retries|trying again|will try|(?<!before )continuing)\b)"
)
"""What a program prints of something that did not work and that it does without, or does again."""


def category_of_file(path: str) -> Category | None:
    """Return what a file is by its name, alone or in a message: of a data set, a checkpoint, a library; None where it does not tell."""
    return next((category for pattern, category in _FILES if re.search(pattern, path)), None)


def said_of(message: str) -> Category | None:
    """Return what a message is about by its words; None where they do not tell."""
    for pattern, category in _WORDS:
        if re.search(pattern, message):
            return category
    return None


def goes_on(text: str) -> bool:
    """Return whether a line tells of something that a program does without, or does again."""
    return _GOES_ON.search(text) is not None
