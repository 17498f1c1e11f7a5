"""Lines of a training script for what a configuration file cannot say: recomputation, layers, loss, optimizer, adapters."""

from __future__ import annotations

import re
from typing import Any

from preflight.plan.settings_reason import CannotSay, spelled
from preflight.vocabulary.run import RunSpec

_TORCH = {
    "adam": "Adam", "adamw": "AdamW", "nadam": "NAdam", "radam": "RAdam", "adamax": "Adamax", "adagrad": "Adagrad",
    "adadelta": "Adadelta", "asgd": "ASGD", "rprop": "Rprop", "rmsprop": "RMSprop", "sgd": "SGD", "adafactor": "Adafactor",
    "muon": "Muon",
}  # fmt: skip
_AO = {
    "adam8bit": "Adam8bit", "adamw8bit": "AdamW8bit", "adam4bit": "Adam4bit", "adamw4bit": "AdamW4bit", "adamwfp8": "AdamWFp8",
}  # fmt: skip
_BNB = {
    "lion": "Lion", "lion8bit": "Lion8bit", "lamb": "LAMB", "lars": "LARS", "ademamix": "AdEMAMix", "pagedadam": "PagedAdam",
    "pagedadamw": "PagedAdamW", "pagedadam8bit": "PagedAdam8bit", "pagedadamw8bit": "PagedAdamW8bit", "pagedlion": "PagedLion",
}  # fmt: skip
_PACKAGES = {"torch.optim": _TORCH, "torchao.optim": _AO, "bitsandbytes.optim": _BNB}
_KERNELS = {"flash": "FLASH_ATTENTION", "efficient": "EFFICIENT_ATTENTION", "math": "MATH", "cudnn": "CUDNN_ATTENTION"}
_TARGETS = {
    "q": ["q_proj"], "k": ["k_proj"], "v": ["v_proj"], "o": ["o_proj"], "mlp": ["gate_proj", "up_proj", "down_proj"],
    "head": ["lm_head"],
}  # fmt: skip
_POLICY = (
    "PRODUCTS = 0",
    "def every_second(context, operator, *args, **kwargs):",
    "    global PRODUCTS",
    "    PRODUCTS += operator is torch.ops.aten.mm.default",
    "    saved = operator is not torch.ops.aten.mm.default or PRODUCTS % 2",
    "    return CheckpointPolicy.MUST_SAVE if saved else CheckpointPolicy.PREFER_RECOMPUTE",
    "contexts = functools.partial(create_selective_checkpoint_contexts, every_second)",
)


def before_sharding(run: RunSpec) -> list[str]:
    """Return what is done with the model before it is divided: adapters, attention, recomputation, compilation."""
    lines: list[str] = []
    if run.deterministic:
        lines.append("torch.use_deterministic_algorithms(True)")
    if run.precision == "tf32":
        lines.append('torch.set_float32_matmul_precision("high")')
    lines += _adapters(run)
    lines += _recomputed(run)
    if run.stack == "compile":
        lines += [
            "for name, block in list(blocks.named_children()):",
            "    blocks.register_module(name, torch.compile(block))",
        ]
    elif run.stack == "megatron":
        raise CannotSay("layers of Megatron-LM run in Megatron-LM (stack: eager or compile)")
    return lines


def _recomputed(run: RunSpec) -> list[str]:
    loop = "for number, (name, block) in enumerate(list(blocks.named_children())):"
    imported = "from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper"
    if run.recompute == "full":
        inside = "    blocks.register_module(name, checkpoint_wrapper(block))"
        if run.recompute_layers is None:
            return [imported, loop, inside]
        return [imported, loop, f"    if number < {run.recompute_layers}:", f"    {inside}"]
    if run.recompute == "op":
        head = [imported, "from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts"]
        return [
            *head,
            *_POLICY,
            loop,
            "    blocks.register_module(name, checkpoint_wrapper(block, context_fn=contexts))",
        ]
    if run.recompute == "selective":
        return [imported, loop, "    block.attention = checkpoint_wrapper(block.attention)"]
    return []


def _adapters(run: RunSpec) -> list[str]:
    if run.finetune == "frozen":
        raise CannotSay("it does not say which parameters are frozen")
    if run.finetune == "full":
        return []
    lines = []
    if run.finetune == "qlora":
        skipped = "[]" if run.quantized_head else '["lm_head"]'
        lines += [
            "# model = from_pretrained(..., quantization_config=BitsAndBytesConfig(load_in_4bit=True, "
            f"bnb_4bit_use_double_quant={run.double_quantization}, llm_int8_skip_modules={skipped}))",
        ]
    names = [name for target in run.lora_targets for name in _TARGETS[target]]
    return [
        *lines,
        "from peft import LoraConfig, get_peft_model",
        f"model = get_peft_model(model, LoraConfig(r={run.lora_rank}, lora_dropout={run.lora_dropout}, target_modules={names}))",
    ]  # fmt: skip


def optimizer_lines(run: RunSpec) -> list[str]:
    """Return the optimizer, and clipping before its step."""
    name = spelled(run.optimizer) or ""
    package = next((package for package, names in _PACKAGES.items() if name in names), None)
    if package is None:
        raise CannotSay(f"neither PyTorch, torchao nor bitsandbytes has the optimizer {run.optimizer}")
    momentum = f", momentum={run.optimizer_momentum}" if run.optimizer_momentum else ""
    if momentum and name not in ("sgd", "rmsprop"):
        raise CannotSay(f"{run.optimizer} has no momentum to set")
    lines = [] if package == "torch.optim" else [f"import {package}"]
    lines.append(f"optimizer = {package}.{_PACKAGES[package][name]}(model.parameters(), lr=LEARNING_RATE{momentum})")
    if run.clipping:
        lines.append("torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # before every optimizer.step()")
    return lines


def forward_lines(run: RunSpec, context_ranks: int = 1) -> list[str]:
    """Return the forward pass and its loss, with the contexts that they run in."""
    contexts = []
    if context_ranks > 1:
        inside = 'mesh["cp"], buffers=[tokens, labels], buffer_seq_dims=[1, 1]'
        contexts.append(f"torch.distributed.tensor.experimental.context_parallel({inside})")
    if run.precision in ("autocast-bf16", "autocast-fp16"):
        contexts.append(f'torch.autocast("cuda", torch.{"bfloat16" if run.precision.endswith("bf16") else "float16"})')
    if run.attention in _KERNELS:
        contexts.append(f"torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.{_KERNELS[run.attention]})")
    if run.offload == "activations":
        contexts.append("torch.autograd.graph.save_on_cpu(pin_memory=True)")
    if run.cross_entropy == "parallel":
        contexts.append("torch.distributed.tensor.parallel.loss_parallel()")
    indent = "    " if contexts else ""
    return [*([f"with {', '.join(contexts)}:"] if contexts else []), *(f"{indent}{line}" for line in _loss(run))]


def _loss(run: RunSpec) -> list[str]:
    if run.cross_entropy == "fused":
        return [
            "# from liger_kernel.transformers import LigerFusedLinearCrossEntropyLoss",
            "loss = LigerFusedLinearCrossEntropyLoss()(head.weight, hidden.flatten(0, 1), labels.flatten())",
        ]
    if run.cross_entropy == "chunked":
        return [
            f"pieces = zip(hidden.flatten(0, 1).chunk({run.cross_entropy_chunks}), labels.flatten().chunk({run.cross_entropy_chunks}))",
            "# summed(hidden, labels) = cross_entropy(head(hidden).float(), labels, reduction='sum')",
            "loss = sum(torch.utils.checkpoint.checkpoint(summed, h, y, use_reentrant=False) for h, y in pieces) / labels.numel()",
        ]
    return ["loss = torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1).float(), labels.flatten())"]


def read_lines(text: str) -> dict[str, Any]:
    """Return the fields of a run that lines of this form stand for."""
    found: dict[str, Any] = {
        "deterministic": "use_deterministic_algorithms(True)" in text,
        "clipping": "clip_grad_norm_" in text,
        "stack": "compile" if "torch.compile(" in text else "eager",
        "attention": next((kind for kind, name in _KERNELS.items() if f"SDPBackend.{name})" in text), "eager"),
        "recompute": "none",
    }
    if "save_on_cpu" in text:
        found["offload"] = "activations"
    if "context_fn=contexts" in text:
        found["recompute"] = "op"
    elif "checkpoint_wrapper(block.attention)" in text:
        found["recompute"] = "selective"
    elif "checkpoint_wrapper(block)" in text:
        part = re.search(r"if number < (\d+):", text)
        found |= {"recompute": "full", "recompute_layers": int(part[1]) if part else None}
    found |= _read_loss(text) | _read_optimizer(text) | _read_adapters(text)
    if 'autocast("cuda"' in text:
        found["precision"] = "autocast-bf16" if "torch.bfloat16" in text else "autocast-fp16"
    elif 'set_float32_matmul_precision("high")' in text:
        found["precision"] = "tf32"
    return found


def _read_loss(text: str) -> dict[str, Any]:
    if "LigerFusedLinearCrossEntropyLoss" in text:
        return {"cross_entropy": "fused"}
    pieces = re.search(r"\.chunk\((\d+)\)", text)
    if pieces:
        return {"cross_entropy": "chunked", "cross_entropy_chunks": int(pieces[1])}
    return {"cross_entropy": "parallel" if "loss_parallel()" in text else "eager"}


def _read_optimizer(text: str) -> dict[str, Any]:
    said = re.search(r"optimizer = ([\w.]+)\.(\w+)\(model\.parameters\(\)(.*)\)", text)
    if not said:
        return {}
    momentum = re.search(r"momentum=([\d.e-]+)", said[3])
    name = next((name for name, title in _PACKAGES[said[1]].items() if title == said[2]), None)
    return {"optimizer": name, "optimizer_momentum": float(momentum[1]) if momentum else None}


def _read_adapters(text: str) -> dict[str, Any]:
    said = re.search(r"LoraConfig\(r=(\d+), lora_dropout=([\d.e-]+), target_modules=(\[.*?\])\)", text)
    if not said:
        return {}
    names = re.findall(r"'(\w+)'", said[3])
    targets = tuple(target for target, modules in _TARGETS.items() if modules[0] in names)
    found: dict[str, Any] = {
        "finetune": "lora", "lora_rank": int(said[1]), "lora_dropout": float(said[2]),
        "lora_targets": tuple(sorted(targets, key=lambda target: names.index(_TARGETS[target][0]))),
    }  # fmt: skip
    if "load_in_4bit=True" in text:
        found |= {
            "finetune": "qlora", "double_quantization": "bnb_4bit_use_double_quant=True" in text,
            "quantized_head": "llm_int8_skip_modules=[]" in text,
        }  # fmt: skip
    return found
