"""The command line of Megatron-LM's ``pretrain_gpt.py``."""

from __future__ import annotations

import shlex
from typing import Any

from preflight.cost.parameters import decoder_depth, decoder_side
from preflight.plan.request import Request
from preflight.plan.settings_reason import CannotSay
from preflight.vocabulary.model import ModelSpec
from preflight.vocabulary.plan import Candidate

TITLE = "Megatron-LM: pretrain_gpt.py, pretrain_bert.py or pretrain_t5.py and its arguments"
# Its Adam is the decoupled one, whichever of the two was named.
ASIDE = ("optimizer", "gradient_as_bucket_view")
_SCRIPTS = {
    "transformer_decoder": "pretrain_gpt.py", "moe": "pretrain_gpt.py", "transformer_encoder": "pretrain_bert.py",
    "encoder_decoder": "pretrain_t5.py",
}  # fmt: skip
_PRECISIONS = {"bf16": ["--bf16"], "fp16": ["--fp16"], "fp32": [], "fp8": ["--bf16", "--fp8-format", "hybrid"]}
_OPTIMIZERS = ("adam", "adamw", "sgd")
_BACKENDS = {"flash": "flash", "cudnn": "fused", "math": "unfused"}
# In place by itself; a fused kernel of its own, which needs one more copy.
_LOSSES = {"parallel": [], "eager": ["--cross-entropy-loss-fusion", "--cross-entropy-fusion-impl", "native"]}
# Transformer Engine's, which Megatron-LM refuses from core 0.19 on.
_REFUSED = "te"


def write(request: Request, candidate: Candidate) -> str:
    """Return the arguments.

    Raises:
        CannotSay: Other families, stages 2 and 3, other optimizers and layers.
    """
    _check(request, candidate)
    lines = [
        _launch(request), _shape(request), _parallel(request, candidate), _experts(candidate), _batch(request, candidate), _rest(candidate),
    ]  # fmt: skip
    return " \\\n  ".join(" ".join(shlex.quote(str(word)) for word in line) for line in lines if line) + "\n"


def _check(request: Request, candidate: Candidate) -> None:
    """Raise for what Megatron-LM does not run."""
    model, run, parallel = request.model, candidate.run, candidate.parallel
    if model.family not in _SCRIPTS or not model.layers:
        raise CannotSay(f"it trains decoders, BERT and T5, not a {model.family.replace('_', ' ')}")
    if (other := _other_block(model)) is not None:
        raise CannotSay(f"the command line for {other} is not written here")
    if parallel.framework not in (None, "megatron"):
        raise CannotSay(f"the layout was planned for {parallel.framework}")
    if run.stack != "megatron":
        raise CannotSay("its layers are its own (stack: megatron)")
    if parallel.zero_stage > 1:
        raise CannotSay("its distributed optimizer shards optimizer states (ZeRO 1)")
    if run.precision not in _PRECISIONS:
        raise CannotSay(f"it runs {', '.join(_PRECISIONS)}, not {run.precision}")
    if run.optimizer not in _OPTIMIZERS or run.finetune != "full":
        raise CannotSay(f"it has {' and '.join(_OPTIMIZERS[1:])} over all parameters")
    if run.cross_entropy == "fused":
        raise CannotSay(
            "it refuses Transformer Engine's fused loss as unstable (core 0.19 and later); eager and parallel run"
        )
    if run.attention not in _BACKENDS or run.cross_entropy not in _LOSSES:
        raise CannotSay(f"it has no {run.attention} attention or no {run.cross_entropy} cross entropy")
    if run.recompute == "op":
        raise CannotSay("it recomputes blocks or the attention matrix, not single products")
    if (run.recompute_layers or 0) % (parallel.pp * parallel.vp):
        raise CannotSay("it recomputes as many blocks in every virtual stage")
    if run.offload not in ("none", "optimizer") or (run.offload == "optimizer" and not parallel.zero_stage):
        raise CannotSay("it offloads the states of its distributed optimizer (ZeRO 1), and nothing else")


def _other_block(model: ModelSpec) -> str | None:
    """Return what sets a model's blocks apart from those that the arguments of ``_shape`` and ``_experts`` name."""
    if model.kv_lora_rank:
        return "multi-head latent attention"
    if model.experts and model.dense_layers:
        return "dense blocks among those with experts, whose places are not known"
    if model.source_positions:
        return "an encoder of audio"
    if decoder_side(model) != model:
        return "a decoder with sizes of its own"
    if model.parallel_blocks or model.norms_per_block not in (None, 2):
        return f"blocks with {'one norm' if model.norms_per_block == 1 else 'other norms'}"
    if model.attention_softcap or model.sliding_window:
        return "capped or windowed attention"
    return "blocks that share their parameters" if model.shared_layers else None


def _launch(request: Request) -> list[Any]:
    cluster = request.cluster
    words: list[Any] = ["torchrun", "--nproc_per_node", min(cluster.gpus_per_node, cluster.num_gpus)]
    if cluster.nodes > 1:
        words += ["--nnodes", cluster.nodes]
    return [*words, _SCRIPTS[request.model.family]]


def _shape(request: Request) -> list[Any]:
    model = request.model
    depth: list[Any] = ["--num-layers", model.layers]
    if model.family == "encoder_decoder":
        depth = ["--encoder-num-layers", model.layers, "--decoder-num-layers", decoder_depth(model)]
    words: list[Any] = [
        *depth, "--hidden-size", model.hidden, "--num-attention-heads", model.heads,
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
    if model.qkv_bias and not model.bias:
        words += ["--add-qkv-bias"]
    if model.qk_norm:
        words += ["--qk-layernorm"]
    if model.experts:
        words += ["--num-experts", model.experts, "--moe-router-topk", model.experts_per_token]
        width = model.expert_ffn or model.ffn or 0
        if width != model.ffn:
            words += ["--moe-ffn-hidden-size", width]
        if model.shared_experts:
            words += ["--moe-shared-expert-intermediate-size", model.shared_experts * width]
    return words


def _parallel(request: Request, candidate: Candidate) -> list[Any]:
    parallel, layers = candidate.parallel, request.model.layers or 0
    words: list[Any] = [
        "--tensor-model-parallel-size", parallel.tp, "--pipeline-model-parallel-size", parallel.pp,
        "--context-parallel-size", parallel.cp,
    ]  # fmt: skip
    if parallel.vp > 1:
        words += ["--num-virtual-stages-per-pipeline-rank", parallel.vp]
    if parallel.first_layers is not None:
        words += ["--decoder-first-pipeline-num-layers", parallel.first_layers]
    if parallel.last_layers is not None:
        words += ["--decoder-last-pipeline-num-layers", parallel.last_layers]
    if layers % (parallel.pp * parallel.vp) and (layers + 2) % (parallel.pp * parallel.vp) == 0:
        words += ["--account-for-embedding-in-pipeline-split", "--account-for-loss-in-pipeline-split"]
    if parallel.ep > 1:
        words += ["--expert-model-parallel-size", parallel.ep]
    if parallel.etp is not None:
        words += ["--expert-tensor-parallel-size", parallel.etp]
    if parallel.sequence_parallel:
        words += ["--sequence-parallel"]
    if parallel.zero_stage:
        words += ["--use-distributed-optimizer"]
        if parallel.dp_replicate > 1:
            words += ["--num-distributed-optimizer-instances", parallel.dp_replicate]
    return words


def _experts(candidate: Candidate) -> list[Any]:
    run = candidate.run
    words: list[Any] = []
    if run.expert_capacity is not None:
        words += ["--moe-expert-capacity-factor", run.expert_capacity]
    if run.expert_padding:
        words += ["--moe-pad-expert-input-to-capacity"]
    return words


def _batch(request: Request, candidate: Candidate) -> list[Any]:
    run = candidate.run
    words: list[Any] = [
        "--micro-batch-size", run.micro_batch, "--global-batch-size", run.global_batch,
        "--seq-length", run.sequence_length, "--max-position-embeddings", run.sequence_length,
    ]  # fmt: skip
    if request.model.family == "encoder_decoder":
        words += ["--decoder-seq-length", run.target_length or run.sequence_length]
    return words


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
    words += ["--attention-backend", _BACKENDS[run.attention], *_LOSSES[run.cross_entropy]]
    words += ["--clip-grad", 1.0 if run.clipping else 0.0]
    if run.optimizer == "sgd":
        words += ["--sgd-momentum", run.optimizer_momentum or 0.0]
    if run.offload == "optimizer":
        words += ["--optimizer-cpu-offload", "--use-precision-aware-optimizer"]
    flags = {
        "--fp8-param-gather": run.fp8_weights,
        "--tp-comm-overlap": run.tensor_overlap,
        "--deterministic-mode": run.deterministic,
    }
    return words + [flag for flag, on in flags.items() if on]


def read(text: str) -> dict[str, dict[str, Any]]:
    """Return the layout and the run that a command line stands for."""
    words = shlex.split(text.replace("\\\n", " "))
    given = {word: words[at + 1] if at + 1 < len(words) else "" for at, word in enumerate(words)}

    def number(option: str, otherwise: int = 1) -> int:
        return int(given.get(option, otherwise))

    def perhaps(option: str) -> int | None:
        return int(given[option]) if option in given else None

    tp, pp, cp = (number(f"--{axis}-parallel-size") for axis in ("tensor-model", "pipeline-model", "context"))
    gpus = number("--nproc_per_node") * number("--nnodes")
    data, vp = gpus // (tp * pp * cp), number("--num-virtual-stages-per-pipeline-rank")
    sharded, instances = "--use-distributed-optimizer" in given, number("--num-distributed-optimizer-instances")
    return {
        "parallel": {
            "tp": tp, "pp": pp, "cp": cp, "vp": vp,
            "ep": number("--expert-model-parallel-size"), "sequence_parallel": "--sequence-parallel" in given,
            "zero_stage": int(sharded), "dp_shard": data // instances if sharded else 1, "dp_replicate": instances if sharded else data,
            "etp": perhaps("--expert-tensor-parallel-size"), "first_layers": perhaps("--decoder-first-pipeline-num-layers"),
            "last_layers": perhaps("--decoder-last-pipeline-num-layers"),
        },
        "run": {"sequence_length": number("--seq-length"), **_read_run(given, pp * vp)},
    }  # fmt: skip


def _read_run(given: dict[str, str], stages: int) -> dict[str, Any]:
    """Return the run of a command line; ``stages`` are all virtual stages of the pipeline."""
    blocks = int(given["--recompute-num-layers"]) * stages if given.get("--recompute-method") == "block" else None
    precision = (
        "fp8" if "--fp8-format" in given else "bf16" if "--bf16" in given else "fp16" if "--fp16" in given else "fp32"
    )
    loss = "eager" if "--cross-entropy-loss-fusion" in given else "parallel"
    if given.get("--cross-entropy-fusion-impl") == _REFUSED:
        loss = "fused"
    capacity = given.get("--moe-expert-capacity-factor")
    return {
        "micro_batch": int(given["--micro-batch-size"]), "global_batch": int(given["--global-batch-size"]),
        "precision": precision, "stack": "megatron",
        "recompute": given.get("--recompute-granularity", "none"), "recompute_layers": blocks,
        "attention": next(kind for kind, word in _BACKENDS.items() if word == given["--attention-backend"]),
        "cross_entropy": loss,
        "clipping": float(given["--clip-grad"]) > 0,
        "optimizer_momentum": float(given.get("--sgd-momentum", 0)) or None,
        "offload": "optimizer" if "--optimizer-cpu-offload" in given else "none",
        "fp8_weights": "--fp8-param-gather" in given, "tensor_overlap": "--tp-comm-overlap" in given,
        "deterministic": "--deterministic-mode" in given, "expert_padding": "--moe-pad-expert-input-to-capacity" in given,
        "expert_capacity": float(capacity) if capacity is not None else None,
    }  # fmt: skip
