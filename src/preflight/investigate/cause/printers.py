"""What a line of trouble is about that no signature took and that names no exception: by the program that prints so.

A compiler, a driver, the library that ranks talk through: each has a form of its own, whatever the message is. Words that a
line may bear by chance (a path, the name of a test) decide nothing here.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from preflight.vocabulary.signature import Category, Role


class Printer(NamedTuple):
    """A form of line, and what it is about."""

    form: re.Pattern[str]
    category: Category
    role: Role = "root"


# A source of the card's or the host's compiler, with a line of it; a generated one has such an ending, too.
_SOURCE = r"[\w./+~-]+\.(?:cu|cuh|cc|cpp|cxx|c|h|hpp|hip|mlir|ptx)"
_PRINTERS = (
    # What a tool lacks on this machine, before what it makes of it.
    Printer(re.compile(r"fatal error: \S+: No such file or directory|cannot find -l\w+|nvcc fatal\s*: (?:Failed to preprocess host compiler|Unsupported gpu|Cannot find compiler|Value '\S+' is not defined)"), "environment"),
    Printer(re.compile(rf"^\s*{_SOURCE}(?::\d+(?::\d+)?|\(\d+\)):\s*(?:fatal |catastrophic )?error\b"), "compile"),
    Printer(re.compile(r"\b(?:nvcc|ptxas|cicc|hipcc|icpx|clang|gcc|g\+\+|c\+\+|cc1plus|ld|lld|collect2|nvlink)(?:\.exe)?\s*(?:fatal|error)?\s*: (?:fatal |internal compiler )?error"), "compile"),
    Printer(re.compile(r"\b(?:nvcc|ptxas|nvlink) (?:fatal|error)\s*:|ninja: build stopped|: all warnings being treated as errors|\bLLVM ERROR\b|MLIR pass pipeline|failed to legalize operation"), "compile"),
    Printer(re.compile(r"command '[^']*(?:nvcc|gcc|g\+\+|c\+\+|cl|hipcc|x86_64-linux-gnu-\w+)(?:\.exe)?' failed"), "compile"),
    Printer(re.compile(r"[Ee]rror (?:building|compiling) (?:extension|module|kernel)|Failed building wheel|Failed to build \S"), "compile"),
    # The kernel's drivers of cards, and what stands above them.
    Printer(re.compile(r"\b(?:NVRM|amdgpu(?!.*(?:page fault|(?<!un)correct(?:able|ed)))|nvidia-nvswitch|nvidia-nvlink)\b.*\b(?i:fail\w*|error|fault|timed ?out|timeout|lost|hang|reset)\b"), "hardware", "confirmation"),
    Printer(re.compile(r"\bCUDA error: (?:uncorrectable|.*(?i:hardware|nvlink|ECC)\b)|unrecoverable hardware error"), "hardware"),
    # Libraries that read samples.
    Printer(re.compile(r"HDF5-DIAG: Error|^\[\w+ @ 0x[0-9a-f]+\] .*(?i:error|invalid|corrupt)|^libpng error|Corrupt JPEG data"), "data"),
    Printer(re.compile(r"^(?:tar|unzip|gzip|bzip2|xz|zstd): .*(?:Cannot open|not recoverable|[Uu]nexpected end|cannot find|not in \w+ format|Invalid)"), "data"),
    # What ranks talk through: at the level of an error, in the form of its own loggers.
    Printer(re.compile(r"\[E[ \d][^\]]*\bProcessGroup(?:NCCL|Gloo|MPI|HCCL|XCCL|UCC)?\w*\.(?:cpp|hpp):\d+\]"), "network", "cascade"),
    Printer(re.compile(r"\[E[ \d][^\]]*\b(?:TCPStore\w*|socket|Watchdog|HeartbeatMonitor)\.cpp:\d+\]"), "network", "cascade"),
    Printer(re.compile(r"Exception raised from c10_cuda_check_implementation at"), "other", "cascade"),
    Printer(re.compile(r"Exception raised from \w+ at \S*(?:ProcessGroup\w+|TCPStore\w*|c10d/\w+)\.[ch]pp:\d+"), "network", "cascade"),
    Printer(re.compile(r"\bNCCL WARN\b.*(?:[Ff]ailed to \w+(?: host| CUDA)? ?alloc|[Ff]ailed to allocate|[Oo]ut of memory)"), "oom", "cascade"),
    Printer(re.compile(r"\bNCCL WARN\b.*(?:[Ff]ailed to (?:open|load|find)|[Cc]ould not (?:open|load)|compiled with|\bdriver\b)"), "environment", "cascade"),
    Printer(re.compile(r"\bUCX\s+(?:ERROR|FATAL)\b.*(?:(?:[Ff]ailed|unable) to (?:open|load|parse|allocate|register|initialize|get)\b|\bmissing\b|[Ii]nvalid|not supported|unsupported|locked memory|cannot export)"), "environment", "cascade"),
    Printer(re.compile(r"\bUCX\s+(?:ERROR|FATAL)\b"), "network", "cascade"),
    Printer(re.compile(r"\bNCCL WARN\b|\bH(?:ccl|CCL)\w*\b.*(?i:fail|error|timeout)|\blibfabric:.*<warn>.*\berr"), "network", "cascade"),
    Printer(re.compile(r"Encountered a bad command exit code!|[Kk]ernel appears to have died"), "other", "teardown"),
    Printer(re.compile(r"\bAER: (?:Multiple )?Uncorrected|\bEDAC \S+ \d+ UE\b|\bMCE\b.*\b[Uu]ncorrect"), "hardware"),
    # Parsers of arguments and settings.
    Printer(re.compile(r"^[\w./-]+(?:\.py)?: error: (?:unrecognized arguments|the following arguments are required|argument )"), "environment"),
    Printer(re.compile(r"^s(?:batch|run|alloc): error: (?:Batch job submission failed|Unable to allocate resources|Invalid|invalid|Memory specification|Unable to open file)"), "environment"),
    Printer(re.compile(r"^(?:srun|sbatch|salloc|scontrol|slurmstepd|slurmd): fatal: (?!.*(?i:connect|communicat|timed out|respon|unreachable|\bsocket\b|exit|kill|cancel|signal))"), "environment", "cascade"),
    Printer(re.compile(r"Error merging|Could not (?:override|find|load) '|Error locating target"), "environment"),
)  # fmt: skip


def printed_by(text: str) -> tuple[Category, Role] | None:
    """Return what a line is about by the form in which it was printed, and what it is for the run; None where that does not tell."""
    for printer in _PRINTERS:
        if printer.form.search(text):
            return printer.category, printer.role
    return None
