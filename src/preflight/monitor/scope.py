"""Scopes: whose habits a learnt statement tells, so that another program is not held to them.

How often a loop clips, or in which mode it calls its model, is a habit of one program. What was learnt of it is said of
the models that it trains: by the classes of the modules that the program calls, and of the layers in them, and by the
names of the parameters. Sizes and seeds do not count, so that the same program with another width, length or seed is in
the same scope; options of the command line that turn a habit on or off (``--clip 0``, ``--amp``, ``--loss l1``) do.
A model of PyTorch's own classes, or of another library, is trained by many programs. Where there is no other, it is told,
too, what the script is called, and with PyTorch's own the classes of the optimizers and the loss functions of the first
backward pass.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Container, Sequence, Set
from functools import lru_cache
from typing import Any

from preflight.monitor.views.options import matters, options_of, settings_of
from preflight.monitor.views.patterns import pattern_of
from preflight.monitor.window import Run, Window

MODEL = "model"
"""The field of a subject that holds the scope."""
_OWN = frozenset(
    "Sequential Linear Module ModuleList ModuleDict Embedding EmbeddingBag RNN LSTM GRU Transformer OptimizedModule "
    "DistributedDataParallel DataParallel FullyShardedDataParallel".split()
)
"""Classes of PyTorch's own, which say little about a program; of these the layers are counted, too."""
_PLAIN = _OWN | {""}
_VERSIONS = frozenset(
    "bad bug buggy broken wrong faulty good ok correct clean fixed fix twin healthy reference ref baseline original orig old new "
    "other another alt alternative variant variants normal golden expected config configuration cfg setting settings "
    "injected mutant mutated error errors before after patched unpatched unfixed positive negative "
    "train training trainer main script scripts program code src examples bugs runs".split()
)
"""Words of a script's name that tell versions of one program apart, or nothing at all."""
_COUNTED = frozenset("run runs seed v version copy try attempt".split())
"""Words whose numbers tell runs of one program apart."""
_WITH = ", with "
_MODELS = "models"
"""Where what is the same of all scopes of a run is kept beside them."""
_DIRECTORIES = re.compile(r"[/\\]")
_LOSSES = ("NllLoss", "BinaryCrossEntropy", "MseLoss", "SmoothL1Loss", "L1Loss", "HuberLoss", "KlDiv", "CtcLoss")


def scope_of(window: Window, needs: Set[str] | None = None) -> str:
    """The models that are trained, in words; the windows of a rank must be asked for in order.

    Args:
        window: The window.
        needs: The calls and rows that somebody looks at: options that change nothing of these are left out. None for all.
    """
    run = window.run
    for name in ("root", "forward"):
        for call in window.named(name):
            given = call.args or {}
            if given.get("inner"):
                run.wrappers[call.object] = given["type"]
            kind = given.get("inner") or given.get("type")
            if name == "forward" and kind == run.wrappers.get(call.object):
                continue  # what it holds is known
            if kind and run.classes.get(call.object) != kind:
                run.classes[call.object] = kind
                if (call.args or {}).get("library"):
                    run.librarys.add(kind)
                run.variables.scopes.clear()
    for call in window.named("step"):
        kind = call.object.rpartition(":")[2]
        if kind not in run.optimizers:
            run.optimizers.add(kind)
            run.variables.scopes.clear()
    if run.losses is None:
        tails = ((call.args or {}).get("tail") for call in window.named("backward"))
        run.losses = next((functions_of(tail) for tail in tails if tail), None)
        if run.losses:
            run.variables.scopes.clear()
    known = run.variables.scopes.get(needs)
    if known is None:
        known = run.variables.scopes[needs] = _scope(run, needs)
    return known


def models_of(run: Run) -> str:
    """The models that a run trains, in words: a scope without its options."""
    known = run.variables.scopes
    if _MODELS not in known:
        known[_MODELS] = _models(run)
    return known[_MODELS]


def without_options(scope: str) -> str:
    """The models of a scope."""
    return scope.partition(_WITH)[0]


def covers(wide: str, narrow: str) -> bool:
    """Whether a scope holds wherever another does: of the same models, with no option that the other one is without."""
    models, _, options = wide.partition(_WITH)
    others, _, more = narrow.partition(_WITH)
    return models == others and set(filter(None, options.split(", "))) <= set(more.split(", "))


def functions_of(tail: Sequence[Sequence[Any]]) -> str:
    """The loss functions at the end of a graph, in words; empty where there is none of PyTorch's."""
    return " and ".join(sorted({str(one[0]) for one in tail if str(one[0]).startswith(_LOSSES)}))


def precision_of(window: Window) -> str:
    """The dtypes of the parameters that are trained, in words."""
    variables = window.run.variables
    if variables.precision is None:
        found = {one.dtype for one in variables.values() if one.kind == "parameter" and one.optimizer >= 0}
        variables.precision = " and ".join(sorted(found)) or "none"
    return variables.precision


def processes_of(window: Window) -> str:
    """Whether one process trains or several do, for contexts: how many there are is a setting."""
    return "one" if window.run.world == 1 else "several"


def torch_of(window: Window) -> str:
    """Which PyTorch trains, and on what, for contexts: of these it depends by which of its operations it computes."""
    version = ".".join(str(window.run.begin.get("torch") or "").split(".")[:2])
    devices = {one.device.partition(":")[0] for one in window.run.variables.values() if one.optimizer >= 0}
    return " ".join([version or "unknown", "on", *sorted(devices)])


def _scope(run: Run, needs: Set[str] | None) -> str:
    options = options_of(run.begin.get("argv") or (), settings_of(run)[0])
    chosen = [one for one in options if needs is None or matters(one, needs)]
    return models_of(run) + (_WITH + ", ".join(chosen) if chosen else "")


def _models(run: Run) -> str:
    held: dict[str, Counter[str]] = {}
    layers: dict[str, Counter[str]] = {}
    for one in run.variables.values():
        if one.kind == "parameter":
            layers.setdefault(one.root, Counter())[one.module or "tensor"] += 1
            if one.optimizer >= 0:
                held.setdefault(one.root, Counter())[one.module or "tensor"] += 1
    if not held:  # no optimizer: the program makes its steps by hand, and of its models the classes are known
        kinds = set(run.classes.values())
        return _whole(run, " + ".join(sorted(kinds)), layers, kinds) if kinds else "nothing"
    told: set[str] = set()
    for root, found in held.items():
        kind = run.classes.get(root) or ""
        # Of a model that is called all layers are told, also those that no optimizer has: that may be the mistake.
        named = layers[root] if kind else found
        told.add(_model(kind, tuple(sorted(named.items()))))
    kinds = {run.classes.get(root) or "" for root in held}
    models = _whole(run, " + ".join(sorted(told)), held, kinds)
    # Many programs are made of plain models alone: by what trains them, and for which loss, they are told apart.
    more = [*sorted(run.optimizers), *filter(None, [run.losses])] if kinds <= _PLAIN else []
    return models + (f" for {' and '.join(more)}" if more else "")


def _whole(run: Run, models: str, roots: Container[str], kinds: Set[str]) -> str:
    """Models with what their parameters are called; without a class of the program's own also with what the script is.

    A script that is called as many are is called by its folder where all models are plain.
    """
    argv, name = run.begin.get("argv") or (), ""
    if kinds <= _PLAIN | run.librarys:
        name = program_of(argv, str(run.begin.get("directory") or "") if kinds <= _PLAIN else None)
    return f"{models}, {_names(run, roots)}" + (f", by {name}" if name else "")


def _names(run: Run, roots: Container[str]) -> str:
    """What the parameters of models are called, by a digest of their names without the numbers in them.

    Two programs whose models have the same classes rarely call all of their parameters the same; one program does in every size.
    """
    held = (one for one in run.variables.values() if one.kind == "parameter" and one.root in roots)
    names = sorted({pattern_of(one.name) for one in held})
    digest = hashlib.blake2s("\n".join(names).encode(), digest_size=4).hexdigest()
    return f"{len(names)} {'name' if len(names) == 1 else 'names'} of parameters ({digest})"


def program_of(argv: Sequence[str], directory: str | None = None) -> str:
    """What a program is called, without words and numbers that tell one version or run of it from another; may be empty.

    Args:
        argv: The command line: an interpreter, a script or ``-m`` and a module, and what they are given.
        directory: The folder in which it was started, where a script that is called as many are (``train.py``, ``main.py``)
            is to be called what its folder is.
    """
    words = [str(one) for one in argv]
    script = next((one for one in words if one.endswith(".py")), "")
    before = words[: words.index(script)] if script else words
    if "-m" in before[:-1]:  # behind a script, -m is an option of the script
        parts = before[before.index("-m") + 1].split(".")
    elif script:
        parts = _DIRECTORIES.split(script.removesuffix(".py"))
        if directory is not None and parts[0] and not parts[0].endswith(":"):
            parts = [*_DIRECTORIES.split(directory), *parts]
    else:
        parts = []
    if directory is None:
        parts = parts[-1:]
    return next((told for told in map(_without_versions, reversed(parts)) if told), "")


def _without_versions(name: str) -> str:
    kept: list[str] = []
    counted = False
    for word, number in re.findall(r"(?=[a-z0-9])([a-z]*)([0-9]*)", name.lower()):
        dropped = word in _COUNTED or (counted and not word)
        if not dropped:
            kept += [part for part in ("" if word in _VERSIONS else word, number.lstrip("0")) if part]
        counted = word in _COUNTED and not number
    return "_".join(kept)


@lru_cache(maxsize=256)
def _model(kind: str, layers: tuple[tuple[str, int], ...]) -> str:
    if kind and kind not in _OWN:
        return f"{kind} of {', '.join(name for name, _ in layers)}"
    return f"{kind or 'a model'} of {', '.join(f'{count} {name}' for name, count in layers)}"
