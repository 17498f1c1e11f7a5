"""Large pretrained weights are loaded in fp32 by every process.

## What it does
Looks for `from_pretrained` of a model of a billion parameters or more without a `dtype`, in a script that runs on several GPUs.

## Why
transformers before version 5 loads weights in fp32 whatever they are stored in, and every process of a node loads its own copy into host memory first: 8 processes x 7 billion x 4 bytes = 224 GB.

## Fix
Pass `dtype=torch.bfloat16` (`torch_dtype` before version 4.56), or load on one rank and let FSDP or DeepSpeed distribute the weights.

## When to ignore
When fp32 master weights are wanted and the host has the memory.

## References
- Hugging Face transformers documentation, "Loading models", data types
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.rule import Example, Rule
from preflight.source.evaluate.library.methods import is_module
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="weights-loaded-in-fp32",
    code="MEM004",
    severity="info",
    confidence="likely",
    needs=("parameters", "distributed"),
    layer="C",
    tags=("memory", "loading"),
)

_LOOP = """
torch.distributed.init_process_group("nccl")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in data:
    optimizer.zero_grad()
    model(**batch).loss.backward()
    optimizer.step()
"""
BAD = (
    Example("import torch\nfrom transformers import AutoModelForCausalLM\n"
            "model = AutoModelForCausalLM.from_pretrained('meta-llama/Llama-2-7b-hf').cuda()\n" + _LOOP, gpu="h100", gpus=8),
    Example("import torch\nimport transformers as tf\ndef build(name):\n    return tf.LlamaForCausalLM.from_pretrained(name)\n"
            "model = build('meta-llama/Llama-2-13b-hf').to('cuda')\n" + _LOOP, gpu="h100", gpus=8),
    Example("import argparse, torch\nfrom transformers import AutoModelForCausalLM as Auto\nparser = argparse.ArgumentParser()\n"
            "parser.add_argument('--model', default='mistralai/Mistral-7B-v0.1')\n"
            "model = Auto.from_pretrained(parser.parse_args().model).cuda()\n" + _LOOP, gpu="a100", gpus=8),
)  # fmt: skip
GOOD = (
    Example("import torch\nfrom transformers import AutoModelForCausalLM\n"
            "model = AutoModelForCausalLM.from_pretrained('meta-llama/Llama-2-7b-hf', torch_dtype=torch.bfloat16).cuda()\n" + _LOOP, gpu="h100", gpus=8),
    Example("import torch\nfrom transformers import AutoModelForCausalLM\n"
            "model = AutoModelForCausalLM.from_pretrained('gpt2').cuda()\n" + _LOOP, gpu="h100", gpus=8),
)  # fmt: skip

_SAID = ("torch_dtype", "dtype", "quantization_config", "load_in_8bit", "load_in_4bit", "device_map")
_LARGE = 1_000_000_000


def check(context: Context) -> Iterator[Finding]:
    """Find large models that every process loads in fp32."""
    parameters = context.model.parameters if context.model is not None else None
    if parameters is None or parameters < _LARGE:
        return
    trained = {id(m) for m in context.reading.models}
    for event in context.trace.events:
        made = event.result
        if (
            not event.name.endswith(".from_pretrained")
            or made is None
            or id(made) not in trained
            or not is_module(made)
        ):
            continue
        if event.context.shadow or any(name in event.kwargs for name in _SAID) or getattr(made, "open_args", False):
            continue
        processes = context.gpus or context.parallel.world_size
        size = 4 * parameters
        total = (
            f"{processes} processes x {size / 1e9:.1f} GB" if processes > 1 else f"{size / 1e9:.1f} GB in each process"
        )
        yield context.finding(
            RULE,
            event,
            f"{parameters / 1e9:.1f} billion weights are loaded in fp32 by every process ({total} of host memory with transformers before version 5)",
            evidence=[Evidence("weights", size, "bytes", "derived", f"{parameters:,} x 4"), Evidence("dtype", None)],
            fix=Fix(
                title="load the weights in bf16",
                instruction="pass dtype=torch.bfloat16 (torch_dtype before transformers 4.56)",
                expected=f"{size / 2e9:.1f} GB per process instead of {size / 1e9:.1f} GB",
            ),
        )
