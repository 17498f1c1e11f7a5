"""What a job asks Slurm for: the ``#SBATCH`` lines, and the options of ``sbatch`` itself."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

import msgspec

from preflight.source.jobs.shell import number

# The short options of sbatch that have a long one.
_SHORT = {
    "A": "account", "a": "array", "C": "constraint", "c": "cpus-per-task", "D": "chdir", "d": "dependency", "e": "error",
    "G": "gpus", "i": "input", "J": "job-name", "M": "clusters", "m": "distribution", "N": "nodes", "n": "ntasks",
    "o": "output", "p": "partition", "q": "qos", "t": "time", "w": "nodelist", "x": "exclude",
}  # fmt: skip
_ALONE = frozenset(
    "contiguous exclusive get-user-env help hold H ignore-pbs k nice no-kill no-requeue O overcommit Q quiet oversubscribe "
    "parsable propagate requeue reboot s spread-job stepmgr test-only use-min-nodes v verbose V version W wait "
    "wait-all-nodes".split()
)
"""Options of sbatch that take no word after them: they have no value, or one only behind ``=``."""
_OF_STEPS = frozenset(
    "contiguous disable-status E exact exclusive external-launcher help hold H interactive k K kill-on-bad-exit l label nice "
    "no-allocate no-kill O overcommit overlap oversubscribe preserve-env propagate pty Q quiet s send-libs u unbuffered "
    "use-min-nodes v verbose V version whole X Z".split()
)
"""The same of srun."""
_DOCUMENT = re.compile(r"<<-?\s*['\"]?(\w+)")
_DIRECTIVE = re.compile(r"#SBATCH\s+(.*)")


class Directive(msgspec.Struct, frozen=True):
    """An ``#SBATCH`` line that Slurm does not read: its line (from 1) and its text."""

    line: int
    text: str


class Resources(msgspec.Struct, frozen=True, kw_only=True):
    """What a job is given.

    Attributes:
        nodes: Number of machines. tasks_per_node: Processes that ``srun`` starts on each.
        gpus_per_node: GPUs on each; None where the job does not say.
        gpu: Their type, as the cluster calls it.
        options: Every option of ``sbatch``, by its long name.
    """

    nodes: int = 1
    tasks_per_node: int = 1
    gpus_per_node: int | None = None
    gpu: str | None = None
    options: dict[str, str] = {}

    @property
    def variables(self) -> dict[str, str]:
        """What Slurm sets for the job, as far as it can be known before the job runs."""
        known = {
            "SLURM_NNODES": str(self.nodes),
            "SLURM_JOB_NUM_NODES": str(self.nodes),
            "SLURM_NTASKS": str(self.nodes * self.tasks_per_node),
            "SLURM_NPROCS": str(self.nodes * self.tasks_per_node),
            "SLURM_NTASKS_PER_NODE": str(self.tasks_per_node),
            "SLURM_TASKS_PER_NODE": str(self.tasks_per_node),
            "SLURM_JOB_NAME": self.options.get("job-name", "job"),
            "SLURM_SUBMIT_DIR": ".",
        }
        if self.gpus_per_node is not None:
            count = str(self.gpus_per_node)
            known |= {"SLURM_GPUS_ON_NODE": count, "SLURM_GPUS_PER_NODE": count}
            known["SLURM_GPUS"] = str(self.gpus_per_node * self.nodes)
        if self.options.get("cpus-per-task", "").isdigit():
            known["SLURM_CPUS_PER_TASK"] = self.options["cpus-per-task"]
        return known


def directives(text: str) -> tuple[dict[str, str], list[Directive]]:
    """Read the ``#SBATCH`` lines of a script: the options, and the lines that come too late for Slurm.

    Slurm stops reading at the first line that is neither a comment nor empty.
    """
    options: dict[str, str] = {}
    late: list[Directive] = []
    began, document = False, ""
    for place, line in enumerate(text.splitlines(), 1):
        found = _DIRECTIVE.match(line)
        if document:
            document = "" if line.strip() == document else document
        elif found is None:
            opened = _DOCUMENT.search(line) if not line.lstrip().startswith("#") else None
            document = opened[1] if opened else ""  # what follows is the text of another file
            began = began or bool(line.strip() and not line.lstrip().startswith("#"))
        elif began:
            late.append(Directive(place, line.strip()))
        else:
            try:
                words = shlex.split(found[1], comments=True)
            except ValueError:
                words = found[1].split()
            options |= options_of(words)[0]
    return options, late


def options_of(words: Sequence[str], *, step: bool = False) -> tuple[dict[str, str], int]:
    """Read the options at the beginning of a command line of ``sbatch`` (``srun`` for a step), and count their words."""
    alone = _OF_STEPS if step else _ALONE
    options: dict[str, str] = {}
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] != "-":
        word = words[at]
        at += 1
        if word == "--":
            break
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
        else:
            name, equals, value = word[1:2], word[2:], word[2:].removeprefix("=")
        if not equals and name not in alone and at < len(words) and not words[at].startswith("-"):
            value = words[at]
            at += 1
        options[_SHORT.get(name, name)] = value
    return options, at


def resources(options: Mapping[str, str]) -> Resources:
    """Work out from the options of ``sbatch`` what the job gets."""
    nodes = _number(options.get("nodes", "").rpartition("-")[2])
    tasks = _number(options.get("ntasks"))
    per_node = _number(options.get("ntasks-per-node"))
    if nodes is None and tasks and per_node:
        nodes = max(1, -(-tasks // per_node))
    nodes = nodes or 1
    if per_node is None and tasks is not None:
        per_node = max(1, -(-tasks // nodes))
    gpu, gpus = _gpus_per_node(options, nodes, per_node)
    if per_node is None and gpus is not None and (each := _number(options.get("ntasks-per-gpu"))):
        per_node = each * gpus
    # A constraint such as "h100" or "a100&80gb" may name the GPU; what is none is left to the caller.
    gpu = gpu or options.get("constraint") or None
    return Resources(nodes=nodes, tasks_per_node=per_node or 1, gpus_per_node=gpus, gpu=gpu, options=dict(options))


def _gpus_per_node(options: Mapping[str, str], nodes: int, tasks_per_node: int | None) -> tuple[str | None, int | None]:
    for name in ("gpus-per-node", "gpus-on-node", "gres"):
        for part in options.get(name, "").split(","):
            words = part.split("(")[0].split(":")
            if name == "gres":
                if words[0] not in ("gpu", "gres/gpu"):
                    continue
                words = words[1:] or ["1"]
            count = _number(words[-1])
            if words != [""] and (count is not None or name == "gres"):
                return (words[0] if len(words) > 1 or count is None else None), count if count is not None else 1
    for name, many in (("gpus", None), ("gpus-per-task", tasks_per_node or 1)):
        if name in options:
            words = options[name].split(":")
            count = _number(words[-1])
            if count is not None:
                each = count * many if many is not None else max(1, count // nodes)
                return words[0] if len(words) > 1 else None, each
    return None, None


def _number(text: str | None) -> int | None:
    return number(text) if text else None
