"""The form of a plan's settings: every key of the YAML file, what it may hold, and the option that says the same."""

from __future__ import annotations

from typing import get_args

import msgspec

from preflight.vocabulary.run import Attention, CrossEntropy, Precision, Schedule, Stack

TYPES = (
    "transformer", "transformer_decoder", "transformer_encoder", "encoder_decoder", "moe", "vision_transformer", "cnn",
    "diffusion_model",
)  # fmt: skip
FRAMEWORKS = ("ddp", "fsdp1", "fsdp2", "deepspeed", "megatron")
ADAPTED = ("q", "k", "v", "o", "mlp", "head")
# Fields of a run that are true or false, which few need to say.
FLAGS = (
    "foreach", "clipping", "ema", "logits_upcast", "loss_compiled", "fused_backward", "gradient_as_bucket_view",
    "variable_length", "longest_first", "gradients_stay", "logits_released", "deterministic", "fp8_weights",
    "tensor_overlap", "expert_padding", "expert_grouping", "cuda_graphs",
)  # fmt: skip
_FLAG_OPTIONS = {
    "deterministic": ("--deterministic", "Deterministic algorithms, with the workspaces that they need."),
    "ema": ("--ema", "A moving average of the weights is kept beside them."),
    "fp8_weights": ("--fp8-weights", "Weights of 8 bits too (precision fp8)."),
}  # fmt: skip
_LARGEST = 1e15


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """One key.

    Attributes:
        path: ``run.precision``.
        kind: ``text``, ``whole``, ``number``, ``flag``, ``words`` (a list of them) or ``table`` (read elsewhere).
        options: The option of the command line, where there is one.
        shown: What stands for the value in the help.
        help: One line about it.
        least: The smallest value. above: What it must be larger than. most: The largest value.
        choices: All values that a text may have.
    """

    path: str
    kind: str
    options: tuple[str, ...] = ()
    shown: str | None = None
    help: str = ""
    least: float | None = None
    above: float | None = None
    most: float = _LARGEST
    choices: tuple[str, ...] = ()

    @property
    def section(self) -> str:
        """The part before the dot."""
        return self.path.partition(".")[0]

    @property
    def name(self) -> str:
        """The part behind the dot."""
        return self.path.partition(".")[2]


def _text(path: str, *options: str, shown: str | None = None, help: str = "", choices: tuple[str, ...] = ()) -> Key:
    return Key(path=path, kind="text", options=options, shown=shown, help=help, choices=choices)


def _count(path: str, *options: str, help: str = "", least: float = 1, most: float = 1e9) -> Key:
    return Key(path=path, kind="whole", options=options, shown="N", help=help, least=least, most=most)


def _amount(path: str, *options: str, help: str = "", above: float | None = 0.0, least: float | None = None) -> Key:
    return Key(path=path, kind="number", options=options, shown="N", help=help, above=above, least=least)


def _flag(path: str, *options: str, help: str = "") -> Key:
    return Key(path=path, kind="flag", options=options, help=help)


_MODEL = (
    _text("model.type", choices=TYPES),
    _text("model.name"),
    _text("model.config"),
    _amount("model.size_billions"),
    Key(path="model.architecture", kind="table"),
    _count("model.batch_size", "--batch", help="Samples of an optimizer step, over all GPUs."),
    _count("model.sequence_length", "--sequence-length", help="Tokens of a sample (default 2048)."),
    _count("model.target_length", help="Tokens of the target, for encoder-decoder models."),
    _count("model.image_size", "--image-size", help="Side of an image in pixels."),
    _text("model.framework", choices=("pytorch",)),
)
_RUN = (
    _count("run.micro_batch", "--micro-batch", help="Samples per GPU in one forward pass."),
    _count("run.global_batch"),
    _count("run.gradient_accumulation", "--accumulate", help="Forward passes per optimizer step."),
    _text("run.precision", "--precision", shown="P", choices=get_args(Precision),
          help="fp32, tf32, autocast-bf16, bf16 (default, fp16 where the GPU has no bf16; fp32 master weights), pure-bf16, fp8 ..."),
    _text("run.optimizer", "--optimizer", shown="NAME", help="adamw (default), adam, sgd, lion, adafactor, adamw8bit ..."),
    _amount("run.optimizer_momentum", above=None, least=0.0),
    _text("run.attention", "--attention", shown="KIND", choices=get_args(Attention),
          help="flash (default), efficient, math, cudnn, eager."),
    _text("run.recompute", "--recompute", shown="KIND", help="none (default), full, full:K (K layers), selective, op."),
    _text("run.stack", "--stack", shown="NAME", choices=get_args(Stack), help="eager, compile, transformers, megatron."),
    _text("run.cross_entropy", "--cross-entropy", shown="KIND", choices=get_args(CrossEntropy),
          help="eager (default), fused, chunked, parallel."),
    _count("run.cross_entropy_chunks"),
    _text("run.finetune", "--finetune", shown="KIND", choices=("full", "lora", "qlora", "frozen"),
          help="full (default), lora, qlora."),
    Key(path="run.lora", kind="table"),
    _text("run.offload", "--offload", shown="WHAT", choices=("none", "optimizer", "parameters", "activations"),
          help="none (default), optimizer, parameters, activations."),
    _amount("run.tokens", "--tokens", help="Tokens to train on: 300e9, 1.5T (default: compute-optimal)."),
    _count("run.steps", "--train-steps", help="Optimizer steps to train, instead of tokens."),
    _count("run.checkpoint_steps", "--checkpoint-steps", help="Steps between two checkpoints (default: the best interval)."),
    _count("run.loader_workers", "--loader-workers", help="Loader processes of a GPU, with --sample-seconds.", least=0),
    _amount("run.sample_seconds", "--sample-seconds", help="What one loader process takes for a sample.", above=None, least=0.0),
    _text("run.torch", "--torch", shown="VERSION", help="Version of PyTorch: 2.6 (default: the newest)."),
    _count("run.trainable_parameters", least=0, most=_LARGEST),
    _count("run.frozen_blocks", least=0, most=_LARGEST),
    _amount("run.frozen_beside", "--frozen-beside", above=None, least=0.0,
            help="Parameters of frozen networks beside it: encoders, a teacher."),
    _count("run.evaluation_micro_batch"),
    _amount("run.expert_imbalance", "--expert-imbalance", above=None, least=1.0,
            help="Tokens of the fullest rank's experts over the mean (default 1)."),
    _amount("run.expert_capacity", "--expert-capacity", help="Capacity factor: an expert drops tokens beyond it."),
    *(_flag(f"run.{name}", *_FLAG_OPTIONS.get(name, ())[:1], help="".join(_FLAG_OPTIONS.get(name, ())[1:])) for name in FLAGS),
)  # fmt: skip
_CLUSTER = (
    _count("cluster.num_gpus", "--gpus", help="How many GPUs (default 1).", most=1e6),
    _text(
        "hardware.gpu_type",
        "--gpu",
        "--gpu-type",
        shown="NAME",
        help="The GPU: H100 (default), 'A100 40GB', MI300X ...",
    ),
    _amount("hardware.gpu_memory", "--gpu-memory", help="The size of its memory in GB, as sold."),
    _count("hardware.memory_bytes", most=_LARGEST),
    _count("cluster.nodes", "--nodes", help="How many nodes.", most=1e6),
    _count("cluster.gpus_per_node", "--gpus-per-node", help="GPUs of a node (default: the usual number, 8).", most=1e3),
    _text("cluster.interconnect", "--interconnect", shown="LINK", help="Between GPUs of a node: nvlink_4, pcie_5 ..."),
    _text("cluster.inter_node", "--inter-node", shown="LINK", help="Between nodes: ib_ndr, roce_400, efa_v2 ..."),
    _amount(
        "cluster.host_memory", "--host-memory", help="Memory of a node's host for offloading, in GB (default 1500)."
    ),
    _amount("cluster.storage_gb_per_s", "--storage", help="GB/s that storage takes from all nodes together."),
    _count("cluster.nics_per_node", help="Network cards of a node (default: one per GPU).", most=1e3),
)
_SPREAD = (
    _text("distribution.strategy", "--strategy", shown="S",
          help="data_parallel, tensor_parallel, pipeline_parallel, hybrid, fsdp, hsdp, zero1, zero2, zero3, auto."),
    _count("distribution.data_parallel", "--data-parallel", "--dp", help="Data-parallel ranks.", most=1e6),
    _count("distribution.tensor_parallel", "--tensor-parallel", "--tp", help="Tensor-parallel ranks.", most=1e6),
    _count("distribution.pipeline_parallel", "--pipeline-parallel", "--pp", help="Pipeline stages.", most=1e6),
    _count("distribution.virtual_pipeline", "--virtual-pipeline", "--vp", help="Model chunks of a stage (interleaved).", most=1e6),
    _count("distribution.context_parallel", "--context-parallel", "--cp", help="Ranks that share a sequence.", most=1e6),
    _count("distribution.expert_parallel", "--expert-parallel", "--ep", help="Ranks that share the experts.", most=1e6),
    _flag("distribution.sequence_parallel", "--sequence-parallel/--no-sequence-parallel",
          help="Split norms over the tensor-parallel ranks, or not."),
    _count("distribution.zero_stage", "--zero-stage", help="What is sharded over data-parallel ranks: 0 to 3.", least=0, most=3),
    _count("distribution.shard_size", "--shard-size", help="Ranks of one sharding group (hsdp).", most=1e6),
    _text("distribution.framework", choices=FRAMEWORKS),
    _text("distribution.schedule", "--schedule", shown="NAME", choices=get_args(Schedule),
          help="Of the pipeline: 1f1b (default), gpipe, zb1p, zb2p."),
    _flag("distribution.reshard"),
    _count("distribution.first_layers"),
    _count("distribution.last_layers"),
    _count("distribution.expert_tensor_parallel", "--expert-tensor-parallel", "--etp",
           help="Tensor-parallel ranks of the experts.", most=1e6),
)  # fmt: skip
_ANALYSIS = (
    _flag(
        "analysis.enable_bottlenecks",
        "--bottlenecks",
        help="What holds the run back: parts of step and memory, rates, single changes.",
    ),
    _flag("analysis.max_batch_size", "--max-batch-size", help="The largest batch that fits."),
    _flag("analysis.search", "--search", help="Look through all ways to spread the run."),
    _flag("analysis.basic_mode", "--basic", help="Memory only."),
)
GROUPS = {"Model": _MODEL, "Run": _RUN, "Cluster": _CLUSTER, "Spreading": _SPREAD, "Analysis": _ANALYSIS}
KEYS = {key.path: key for keys in GROUPS.values() for key in keys}


def sections() -> tuple[str, ...]:
    """Return the top-level keys of a file."""
    return tuple(dict.fromkeys(key.section for key in KEYS.values()))


def names_in(section: str) -> tuple[str, ...]:
    """Return the keys of a section."""
    return tuple(key.name for key in KEYS.values() if key.section == section)
