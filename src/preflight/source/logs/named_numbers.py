"""Finds the numbers of a line that have a name, and says what each is: by normalised name, in seconds and bytes."""

from __future__ import annotations

import re

NUMBER = r"[-+]?(?:(?:\d{1,3}(?:,\d{3})+(?!\d)|\d[\d_]*)\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|\bnan\b|\binf(?:inity)?\b)"
"""A number with its sign, as lines bear it; of thousands, of powers of ten, or none at all (nan, inf)."""
_NAMED = re.compile(
    rf"(?<![\w/.])(?P<key>[A-Za-z_][A-Za-z0-9_./@-]*(?:[ ](?!(?:nan|inf(?:inity)?)\b)[A-Za-z(][A-Za-z0-9_./()-]*){{0,5}})['\"]?\s*"
    rf"(?:(?:\.{{2,}})?\s*[:=]\s*[\[('\"]{{0,2}}|(?<=loss) {{1,8}}|(?<=ppl) {{1,8}}|(?<= reward) {{1,8}}|(?<=time) |(?<=norm) |(?<=lr) |(?<=mfu) |(?<=[a-z]) (?=\d+(?:\.\d+)?(?:ms|us|s)\b))"
    rf"(?P<number>{NUMBER})(?P<unit>\s?(?:ms\b|us\b|secs?\b|s\b(?!/)|min\b|[KMG]i?B?\b(?! loss\b)|%|[KMkG]\b(?! loss\b)|tok/s|s/it|it/s|samples/s|tokens/s))?",
    re.IGNORECASE,
)
_BRACKETED = re.compile(
    rf"\[(?P<key>[A-Za-z][A-Za-z_ /-]{{0,30}})\]\s{{1,8}}(?P<number>{NUMBER})(?=\s|$|[,;|])", re.IGNORECASE
)
"""A name in brackets with its number behind it: a logger's level and what it says look like one, so it must be a known name."""
_PLAIN = re.compile(rf"\d+ (?P<split>train|val) (?P<number>{NUMBER})\s*$")
"""A step, the split and the loss, without a word more."""
_ALL_MS = re.compile(r"^\W*(?:\([^)]*\) )?times? (?:across ranks )?\(ms\)")
"""A heading that says that all times behind it are milliseconds."""
_BARE = re.compile(
    rf"(?P<number>{NUMBER})(?P<unit>\s?(?:ms|tok/s|tokens/s|samples/s|it/s|s/it|TFLOPs?/?s?|% bf16 MFU|% MFU))\b",
    re.IGNORECASE,
)
_CODE = re.compile(r"\.(?:py|cpp|cc|cu|h|c|ipynb|sh|json|yaml)\b")
_EPOCH = re.compile(r"\bepoch['\"]?\s*[:=]?\s*\[?\s*(\d+(?:\.\d+)?)", re.IGNORECASE)


_NAMES = {
    "loss": "trl loss lm-loss train-loss training-loss total-loss reduced-train-loss train/loss train_loss running-loss loss-train lm-loss-value"
    " train/crossentropyloss loss/train/total ce-loss crossentropyloss train/ce-loss actor/loss loss-train/total",
    "val_loss": "tel val-loss validation-loss eval-loss valid-loss eval/loss val/loss lm-loss-validation test-loss loss-val",
    "grad_norm": "grad-norm gradient-norm gnorm grad/norm norm total-grad-norm optim/total-grad-norm gradnorm global-grad-norm actor/grad-norm"
    " train/grad-norm gradient-norm-total",
    "lr": "lr learning-rate train/lr optim/learning-rate-group0 learning-rate-group0 lr-0 actor/lr train/learning-rate",
    "seconds": "elapsed-time-per-iteration time/iter iter-time step-time train-step-timing-in-s step-timing-in-s time-per-step time-per-iteration"
    " iteration-time batch-time seconds-per-step sec/step step-avg train-step-time time dt duration elapsed-time-per-step timing-s/step step-duration"
    " iter-duration perf/time-per-step time/step",
    "loss_scale": "loss-scale scale grad-scale amp-scale",
    "tokens_per_second": "tps wps tokens-per-second tokens-per-sec tokens/sec tokens/s tok/s tokens-per-second-per-gpu tok/sec"
    " throughput/device/tokens-per-sec throughput/total-tokens-per-sec tgs train-tokens-per-second",
    "samples_per_second": "samples-per-second samples/s samples/sec train-samples-per-second currsamplespersec samplespersec images/sec img/s"
    " throughput/samples-per-sec samples-per-sec runningavgsamplespersec",
    "steps_per_second": "it/s iters/sec iters-per-sec steps-per-second iter/s ups train-steps-per-second steps/s steps/sec",
    "memory_bytes": "memory mem max-mem max-memory gpu-mem mem-allocated memallocated max-memory-allocated peak-memory memory-allocated cuda-mem",
    "memory_reserved_bytes": "memory-reserved max-memory-reserved mem-reserved maxmemallocated reserved",
    "data_seconds": "data-time data dataload-time data-loading-time time/data-loading data-wait batch-generator dataloader-time fetch-time"
    " time/data-loading-s timing-s/data data-load-time load-time",
    "forward_seconds": "forward forward-time fwd fwd-time fwd-microstep forward-compute fwd-inner",
    "backward_seconds": "backward backward-time bwd bwd-time bwd-microstep backward-compute bwd-inner",
    "compute_seconds": "compute compute-time forward-backward forward-backward-time fwd-bwd",
    "communication_seconds": "comm communication-time allreduce bwd-allreduce bwd-allreduce-microstep comm-time communication grads-reduce-scatter all-grads-sync"
    " grads-all-reduce params-all-gather layernorm-grads-all-reduce embedding-grads-all-reduce reduce-time",
    "optimizer_seconds": "optimizer step-microstep optimizer-time optim-time optimizer-step optimizer-inner-step",
    "checkpoint_seconds": "save-checkpoint checkpoint-time save-time checkpoint",
    "mfu": "mfu train/mfu throughput/device/mfu",
    "tflops": "tflops throughput-per-gpu tflop/s/gpu tflops-per-gpu tflops/gpu throughput throughput-tflop/s/gpu",
    "skipped": "number-of-skipped-iterations skipped",
    "nan_iterations": "number-of-nan-iterations",
    "consumed_samples": "consumed-samples",
    "perplexity": "ppl perplexity train/perplexity lm-loss-ppl",
    "epoch": "epoch",
    "step": "step global-step iteration iter num-updates trainer/global-step train-step",
}  # fmt: skip
_NORMAL = {alias: name for name, aliases in _NAMES.items() for alias in aliases.replace("_", "-").split()}
_SECONDS = {name for name in _NAMES if name.endswith("seconds")}
_PER = {"ms": 1e-3, "us": 1e-6, "s": 1.0, "sec": 1.0, "secs": 1.0, "seconds": 1.0, "min": 60.0}
_TIMED = re.compile(r"(.+)-(ms|us|s|secs?|seconds)")
"""A name that ends in the unit of its number."""
_OF_TIMES = {
    "step": "seconds",
    "iter": "seconds",
    "iteration": "seconds",
    "load": "data_seconds",
    "fetch": "data_seconds",
}
"""Words that are those of something else where their number bears no unit of time."""
_BYTES = {f"{letter}{ending}": 1024.0**power for power, letter in enumerate("kmg", 1) for ending in ("", "b", "ib")}
_MEGABYTE = 1048576.0
"""Memory without a unit is printed in megabytes: by torchvision's loggers, mmengine and what was made after them."""
_DECORATION = re.compile(r"\(([^)]*)\)")
_PROGRAMS = re.compile(r"^(?:training|train|epoch|step|iter|info|average|avg|mean|current|at|the)[ -]+(?=\S)")
_IDLE = ("eta", "train", "v_num", "elapsed", "remaining")
MOST_VALUES = 64


def named_numbers(text: str) -> dict[str, tuple[int, float]]:
    """Return, by normalised name, where each number begins, and what it is to be multiplied with."""
    values: dict[str, tuple[int, float]] = {}
    plain = _PLAIN.match(text)
    if plain is not None:
        return {"loss" if plain["split"] == "train" else "val_loss": (plain.start("number"), 1.0)}
    milliseconds = 1e-3 if _ALL_MS.search(text) else 1.0
    for match in _NAMED.finditer(text):
        if len(values) >= MOST_VALUES:
            break
        name, factor = _normal(match["key"], (match["unit"] or "").strip().lower())
        if name and name not in values and name not in _IDLE and "/" not in name[:1] and not _CODE.search(name):
            values[name] = (
                match.start("number"),
                factor if match["unit"] or name not in _SECONDS else factor * milliseconds,
            )
    for match in _BRACKETED.finditer(text) if "] " in text else ():
        name, factor = _normal(match["key"], "")
        if name in _NAMES:
            values.setdefault(name, (match.start("number"), factor))
    for match in _BARE.finditer(text):
        unit = match["unit"].strip().lower()
        name = "seconds" if unit in ("ms", "s/it") else "mfu" if "mfu" in unit else _NORMAL.get(unit, "")
        if name:
            values.setdefault(name, (match.start("number"), 1e-3 if unit == "ms" else 1.0))
    if "epoch" not in values:
        epoch = _EPOCH.search(text)
        if epoch:
            values["epoch"] = (epoch.start(1), 1.0)
    return values


def as_float(text: str) -> float:
    """Return a number whose thousands may be set apart.

    Raises:
        ValueError: It is none.
    """
    return float(text.replace(",", "") if "," in text else text)


def _normal(key: str, unit: str) -> tuple[str, float]:
    """Return the normalised name of a value and what its number is to be multiplied with."""
    lower = key.lower().strip(" -./")
    inside = _DECORATION.search(lower)
    if inside:
        unit = unit or inside[1]
        lower = _DECORATION.sub("", lower).strip(" -./")
    dashed = re.sub(r"[\s_]+", "-", lower.removesuffix(" is"))
    name = _NORMAL.get(dashed)
    while name is None:
        shorter = _PROGRAMS.sub("", dashed)
        if shorter == dashed or shorter == "time":  # the time of a whole training is not that of a step
            break
        dashed = shorter
        name = _NORMAL.get(dashed)
    timed = _TIMED.fullmatch(dashed) if name is None else None
    if timed is not None and (_NORMAL.get(timed[1]) in _SECONDS or timed[1] in _OF_TIMES):
        name = _OF_TIMES.get(timed[1]) or _NORMAL[timed[1]]
        unit = unit or timed[2]
    name = name or lower.replace(" ", "_")
    if name == "step" and unit in _PER:  # 0.06s is no number of a step
        name = "seconds"
    if name in _SECONDS or name.endswith(("_time", "_ms")):
        factor = _PER.get(unit, 1.0)
        return name, factor
    if name.endswith("_bytes"):
        return name, _BYTES.get(unit, _MEGABYTE)
    if unit in ("k", "m") and name in ("tokens_per_second", "samples_per_second"):
        return name, 1e3 if unit == "k" else 1e6
    return name, 1.0
