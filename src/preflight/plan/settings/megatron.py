"""The command line of Megatron-LM's ``pretrain_gpt.py``."""

from __future__ import annotations

import shlex
from typing import Any

from preflight.plan.request import Request
from preflight.vocabulary.plan import Candidate

TITLE = "Megatron-LM: arguments of pretrain_gpt.py"
_PRECISIONS = {"bf16": ["--bf16"], "fp16": ["--fp16"], "fp32": [], "fp8": ["--bf16", "--fp8-format", "hybrid"]}
_OPTIMIZERS = ("adam", "adamw", "sgd")


def settings(request: Request, candidate: Candidate) -> str | None:
    """Return the arguments, or None for what Megatron does not run: other families, stages 2 and 3, other optimizers."""
    model, run, parallel = request.model, candidate.run, candidate.parallel
    if model.family not in ("transformer_decoder", "moe") or parallel.zero_stage > 1 or not model.layers:
        return None
    if run.precision not in _PRECISIONS or run.optimizer not in _OPTIMIZERS or run.finetune != "full":
        return None
    if run.recompute == "op" or run.offload != "none" or (run.recompute_layers or 0) % (parallel.pp * parallel.vp):
        return None
    if parallel.framework not in ("megatron", None) or (parallel.dp_replicate > 1 and parallel.dp_shard > 1):
        return None
    lines = [
        _launch(request), _shape(request), _parallel(candidate), _batch(candidate), _rest(candidate),
    ]  # fmt: skip
    return " \\\n  ".join(" ".join(shlex.quote(str(word)) for word in line) for line in lines if line) + "\n"


def _launch(request: Request) -> list[Any]:
    cluster = request.cluster
    words: list[Any] = ["torchrun", "--nproc_per_node", min(cluster.gpus_per_node, cluster.num_gpus)]
    if cluster.nodes > 1:
        words += ["--nnodes", cluster.nodes]
    return [*words, "pretrain_gpt.py"]


def _shape(request: Request) -> list[Any]:
    model = request.model
    words: list[Any] = [
        "--num-layers", model.layers, "--hidden-size", model.hidden, "--num-attention-heads", model.heads,
        "--ffn-hidden-size", model.ffn or model.expert_ffn, "--vocab-size", model.vocab,
    ]  # fmt: skip
    if model.kv_heads and model.kv_heads != model.heads:
        words += ["--group-query-attention", "--num-query-groups", model.kv_heads]
    if model.head_dim and model.heads and model.head_dim * model.heads != model.hidden:
        words += ["--kv-channels", model.head_dim]
    if model.gated:
        words += ["--swiglu"]
    if model.norm in ("rmsnorm", "rms_norm"):
        words += ["--normalization", "RMSNorm"]
    if model.bias is False:
        words += ["--disable-bias-linear"]
    if not model.tied_embeddings:
        words += ["--untie-embeddings-and-output-weights"]
    if not model.learned_positions:
        words += ["--position-embedding-type", "rope"]
    if model.experts:
        words += ["--num-experts", model.experts, "--moe-router-topk", model.experts_per_token]
    return words


def _parallel(candidate: Candidate) -> list[Any]:
    parallel = candidate.parallel
    words: list[Any] = [
        "--tensor-model-parallel-size", parallel.tp, "--pipeline-model-parallel-size", parallel.pp,
        "--context-parallel-size", parallel.cp,
    ]  # fmt: skip
    if parallel.vp > 1:
        words += ["--num-virtual-stages-per-pipeline-rank", parallel.vp]
    if parallel.ep > 1:
        words += ["--expert-model-parallel-size", parallel.ep]
    if parallel.sequence_parallel:
        words += ["--sequence-parallel"]
    if parallel.zero_stage:
        words += ["--use-distributed-optimizer"]
    return words


def _batch(candidate: Candidate) -> list[Any]:
    run = candidate.run
    return [
        "--micro-batch-size", run.micro_batch, "--global-batch-size", run.global_batch,
        "--seq-length", run.sequence_length, "--max-position-embeddings", run.sequence_length,
    ]  # fmt: skip


def _rest(candidate: Candidate) -> list[Any]:
    run, parallel = candidate.run, candidate.parallel
    words: list[Any] = [*_PRECISIONS[run.precision], "--optimizer", "sgd" if run.optimizer == "sgd" else "adam"]
    if run.recompute == "full" and run.recompute_layers:
        # The method "block" counts the blocks of one virtual stage.
        blocks = run.recompute_layers // (parallel.pp * parallel.vp)
        words += ["--recompute-granularity", "full", "--recompute-method", "block", "--recompute-num-layers", blocks]
    elif run.recompute == "full":
        words += ["--recompute-granularity", "full", "--recompute-method", "uniform", "--recompute-num-layers", 1]
    elif run.recompute == "selective":
        words += ["--recompute-granularity", "selective"]
    if run.attention == "flash":
        words += ["--attention-backend", "flash"]
    return words


def read(text: str) -> dict[str, dict[str, Any]]:
    """Return the layout and the run that a command line stands for."""
    words = shlex.split(text.replace("\\\n", " "))
    given = {word: words[at + 1] if at + 1 < len(words) else "" for at, word in enumerate(words)}

    def number(option: str, otherwise: int = 1) -> int:
        return int(given.get(option, otherwise))

    tp, pp, cp = (number(f"--{axis}-parallel-size") for axis in ("tensor-model", "pipeline-model", "context"))
    gpus = number("--nproc_per_node") * number("--nnodes")
    data = gpus // (tp * pp * cp)
    stages = pp * number("--num-virtual-stages-per-pipeline-rank")
    blocks = number("--recompute-num-layers") * stages if given.get("--recompute-method") == "block" else None
    sharded = "--use-distributed-optimizer" in given
    precision = (
        "fp8" if "--fp8-format" in given else "bf16" if "--bf16" in given else "fp16" if "--fp16" in given else "fp32"
    )
    return {
        "parallel": {
            "tp": tp, "pp": pp, "cp": cp, "vp": number("--num-virtual-stages-per-pipeline-rank"),
            "ep": number("--expert-model-parallel-size"), "sequence_parallel": "--sequence-parallel" in given,
            "zero_stage": int(sharded), "dp_shard": data if sharded else 1, "dp_replicate": 1 if sharded else data,
        },
        "run": {
            "micro_batch": number("--micro-batch-size"), "global_batch": number("--global-batch-size"),
            "sequence_length": number("--seq-length"), "precision": precision,
            "recompute": given.get("--recompute-granularity", "none"), "recompute_layers": blocks,
        },
    }  # fmt: skip
