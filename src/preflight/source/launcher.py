"""Launch lines: torchrun, accelerate, deepspeed, srun, mpirun, plain python; what they say about world size."""

from __future__ import annotations

import os
import re
import shlex

import msgspec

from preflight.errors import UsageError


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """How a script is started.

    Attributes:
        framework: ``torchrun``, ``accelerate``, ``deepspeed``, ``slurm``, ``mpi``, ``python``; None without a launch line.
        nodes: Number of machines.
        gpus_per_node: Processes on each.
        script: The script that the line names, or None.
        arguments: The script's own arguments, or None where the line names no script.
        config: A configuration file of the launcher.
        options: The launcher's other options.
        environment: Assignments in front of the command.
    """

    framework: str | None = None
    nodes: int | None = None
    gpus_per_node: int | None = None
    script: str | None = None
    arguments: tuple[str, ...] | None = None
    config: str | None = None
    options: dict[str, str] = {}
    environment: dict[str, str] = {}

    @property
    def world_size(self) -> int | None:
        """Number of ranks, or None where the line does not say."""
        if self.framework is None or self.gpus_per_node is None:
            return None
        return (self.nodes or 1) * self.gpus_per_node

    def arguments_of(self, path: str) -> tuple[str, ...] | None:
        """The arguments that the line gives to a script, which it may name from another folder.

        Raises:
            UsageError: It starts another script, so that nothing it says would hold for this one.
        """
        if self.script is None or self.arguments is None:
            return None
        checked, started = _parts(path), _parts(self.script)
        of_package = checked[-1] == "__main__.py" and started[-1] == "".join(checked[-2:-1]) + ".py"  # -m package
        shorter = min(len(checked), len(started))
        if of_package or checked[-shorter:] == started[-shorter:]:
            return self.arguments
        for position, word in enumerate(self.arguments):
            if _parts(word) == checked:  # a wrapper that starts the script
                return self.arguments[position + 1 :]
        if started[-1] != checked[-1] and started[-1].endswith(".py") and path.endswith(".py"):
            raise UsageError(
                f"the launch line starts {self.script}, but {path} is checked", "name one script in both places"
            )
        return None

    def variables(self) -> dict[str, str | None]:
        """The environment that the launcher sets; None stands for a value that differs between ranks."""
        given: dict[str, str | None] = dict(self.environment)
        size = self.world_size
        if size is None or self.framework == "python":
            return given
        given.update(
            WORLD_SIZE=str(size),
            LOCAL_WORLD_SIZE=str(self.gpus_per_node),
            RANK=None,
            LOCAL_RANK=None,
            NODE_RANK=None,
            GROUP_RANK=None,
            MASTER_ADDR="localhost",
            MASTER_PORT="29500",
            PREFLIGHT_GPUS_PER_NODE=str(self.gpus_per_node),
        )
        if self.framework == "slurm":
            given.update(
                SLURM_NTASKS=str(size), SLURM_PROCID=None, SLURM_LOCALID=None, SLURM_JOB_NUM_NODES=str(self.nodes or 1)
            )
        return given


_FLAGS = frozenset(
    "--standalone --no-python --no_python --module -m --run-path --run_path --use_env --use-env --multi_gpu --multi-gpu --cpu "
    "--use_deepspeed --use_fsdp --mixed_precision_off --no_local_rank --force_multi --debug --quiet -q -u".split()
)
_PER_NODE = ("nproc-per-node", "num-gpus", "ntasks-per-node", "npernode", "ppn", "gpus-per-node")
_NODES = ("nnodes", "num-nodes", "num-machines", "nodes")
_TOTAL = ("num-processes", "ntasks", "np", "gpus")
# Options of one letter, whose number may be written without a space (-n16). Open MPI's -N is of a node.
_LETTERS = {"n": "ntasks", "N": "nodes", "g": "gpus", "G": "gpus"}
_LETTERS_OF_MPI = _LETTERS | {"N": "npernode"}
_ATTACHED = re.compile(r"-([A-Za-z])(\d+)")


def parse_launch(line: str) -> Launch:
    """Read a launch line.

    Raises:
        UsageError: The line cannot be split into words, or a count in it is not a number.
    """
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise UsageError(f"the launch line cannot be read: {error}", f"given: {line}") from None
    environment: dict[str, str] = {}
    while words and "=" in words[0] and words[0].partition("=")[0].isidentifier():
        name, _, value = words.pop(0).partition("=")
        environment[name] = value
    if not words:
        raise UsageError(
            "the launch line names no command", 'for example --launch "torchrun --nproc_per_node 8 train.py"'
        )
    framework, rest = _command(words)
    options, script, arguments, module = _split(rest, _LETTERS_OF_MPI if framework == "mpi" else _LETTERS)
    if script is not None and framework in ("slurm", "mpi") and _base(script) in PROGRAMS:
        inner = parse_launch(shlex.join([script, *(arguments or ())]))
        nodes, per_node = _counts(options, framework)
        return msgspec.structs.replace(
            inner,
            framework=framework if inner.framework in ("python", None) else inner.framework,
            nodes=inner.nodes
            if inner.framework == "torchrun" and inner.nodes and inner.nodes > 1
            else nodes or inner.nodes,
            gpus_per_node=inner.gpus_per_node
            if inner.framework in ("torchrun", "accelerate", "deepspeed")
            else per_node or inner.gpus_per_node,
            environment=environment,
        )
    launch = Launch(
        framework=framework,
        script=script.replace(".", "/") + ".py" if module and script else script,
        arguments=arguments,
        config=options.get("config-file"),
        options=options,
        environment=environment,
    )
    return with_counts(launch)


def with_counts(launch: Launch) -> Launch:
    """Work out the number of nodes and of processes from the options.

    Raises:
        UsageError: A count is not a number, or an option has none.
    """
    if launch.framework == "python":
        return msgspec.structs.replace(launch, gpus_per_node=1)
    nodes, per_node = _counts(launch.options, launch.framework or "")
    if per_node is None and launch.framework in ("torchrun", "accelerate", "deepspeed"):
        per_node = _visible(
            launch.environment
        )  # where nothing is said, or "gpu", these launchers take every GPU they see
    return msgspec.structs.replace(launch, nodes=nodes, gpus_per_node=per_node)


def _visible(environment: dict[str, str]) -> int | None:
    """The number of GPUs that ``CUDA_VISIBLE_DEVICES=0,1`` leaves, where it stands before the command."""
    names = environment.get("CUDA_VISIBLE_DEVICES")
    return len([name for name in names.split(",") if name.strip()]) or None if names else None


PROGRAMS = {
    "torchrun": "torchrun",
    "accelerate": "accelerate",
    "deepspeed": "deepspeed",
    "srun": "slurm",
    "sbatch": "slurm",
    "mpirun": "mpi",
    "mpiexec": "mpi",
    "horovodrun": "mpi",
    "python": "python",
    "python3": "python",
    "uv": "python",
    "composer": "torchrun",
    "torch.distributed.run": "torchrun",
    "torch.distributed.launch": "torchrun",
    "accelerate.commands.launch": "accelerate",
    "deepspeed.launcher.runner": "deepspeed",
}


def _parts(path: str) -> list[str]:
    return os.path.normpath(path).replace("\\", "/").split("/")


def _base(word: str) -> str:
    return word.replace("\\", "/").rpartition("/")[2]


def _command(words: list[str]) -> tuple[str, list[str]]:
    program = _base(words[0])
    kind = PROGRAMS.get(program) or ("python" if program.startswith("python") else None)
    rest = words[1:]
    if kind == "python":
        if program == "uv" and rest[:1] == ["run"]:
            rest = rest[1:]
            if rest and _base(rest[0]) in PROGRAMS:
                return _command(rest)
        for i, word in enumerate(rest):
            if word == "-m" and i + 1 < len(rest) and rest[i + 1] in PROGRAMS:
                return _command([rest[i + 1], *rest[i + 2 :]])
            if not word.startswith("-"):
                break
        return "python", rest
    if kind is None:
        if words[0].endswith(".py"):
            return "python", words
        from preflight.errors import nearest

        near = nearest(program, PROGRAMS)
        raise UsageError(
            f"the launch line starts with {program!r}, which is not a launcher that is known",
            f"did you mean {near}?" if near else "torchrun, accelerate launch, deepspeed, srun, mpirun or python",
        )
    return kind, rest[1:] if kind == "accelerate" and rest[:1] == ["launch"] else rest


def _split(
    words: list[str], letters: dict[str, str]
) -> tuple[dict[str, str], str | None, tuple[str, ...] | None, bool]:
    """Return the options before the program, the program, its arguments, and whether it is named as a module."""
    options: dict[str, str] = {}
    module = False
    i = 0
    while i < len(words):
        word = words[i]
        if word == "--":
            i += 1
            break
        if not word.startswith("-"):
            break
        name, equals, value = word.lstrip("-").partition("=")
        key = name.replace("_", "-")
        if word in ("-m", "--module"):
            module = True
            i += 1
            continue
        attached = _ATTACHED.fullmatch(word)
        if attached is not None and attached[1] in letters:
            options[letters[attached[1]]] = attached[2]
        elif equals:
            options[key] = value
        elif word in _FLAGS or i + 1 >= len(words) or words[i + 1].startswith("-") or _base(words[i + 1]) in PROGRAMS:
            options[key] = "true"
        else:
            options[letters.get(key, key)] = words[i + 1]
            i += 1
        i += 1
    if i >= len(words):
        return options, None, None, module
    return options, words[i], tuple(words[i + 1 :]), module


def _number(options: dict[str, str], names: tuple[str, ...]) -> int | None:
    for name in names:
        text = options.get(name)
        if text is None or text in ("auto", "gpu", "cpu"):
            continue
        if text == "true":
            raise UsageError(f"the launch line says --{name} and no number", f"for example --{name} 8")
        text = text.rpartition(":")[2]  # torchrun --nnodes 1:4 is elastic: the largest
        if not text.isdigit() or int(text) < 1:
            raise UsageError(f"the launch line says --{name} {options[name]}, which is not a number of at least 1")
        return int(text)
    return None


def _counts(options: dict[str, str], framework: str) -> tuple[int | None, int | None]:
    """Return the number of nodes and of processes on each, as far as the options tell."""
    nodes, per_node, total = _number(options, _NODES), _number(options, _PER_NODE), _number(options, _TOTAL)
    if per_node is None and total is not None:
        per_node = max(total // (nodes or 1), 1)
    if nodes is None and per_node is not None and total is not None and total > per_node:
        nodes = -(-total // per_node)
    if per_node is None and framework == "torchrun" and "nproc-per-node" not in options:
        per_node = 1  # torchrun's own default
    include = options.get("include")
    if per_node is None and include and "localhost:" in include:
        per_node = len(include.partition("localhost:")[2].split(","))
    return nodes, per_node
