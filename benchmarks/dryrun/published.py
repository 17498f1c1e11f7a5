"""Holds the dry run against published measurements: each row is written as a program, which runs on the virtual GPU.

Usage: python published.py [PATTERN] [-o TABLE.md]
PATTERN chooses rows by a part of their id. Rows that name too little, or need code that is not here (4-bit weights,
compilers), are left out and counted by reason.
"""

from __future__ import annotations

import argparse
import ast
import csv
import json
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from preflight.catalog.hardware import resolve_gpu
from preflight.dryrun.launch import Job, dry_run
from preflight.errors import PreflightError

HERE = Path(__file__).resolve().parent
DATA = HERE.parent / "data" / "memory.csv"
MIB, GIB = 1 << 20, 1 << 30


class CannotWrite(Exception):
    """Why a row is not written as a program."""


class Program(msgspec.Struct):
    """A row as a program: its file, what it is told, and bytes of the reading that are not the allocator's."""

    file: str
    told: dict[str, Any]
    reading: str
    beside: int | None = 0


def decoder(row: Mapping[str, str]) -> Program:
    """Return a row of LitGPT or torchtune."""
    arch = json.loads(row["arch_json"])
    method = arch.get("method") or {"full-finetune": "full", "pretrain": "full"}.get(row["task"])
    if row["num_gpus"] != "1" or row["compile"] not in ("no", "Eager", ""):
        raise CannotWrite("several GPUs, or compiled")
    if (arch.get("quant") or "None") != "None" or method not in ("lora", "full") or row["offload"] not in ("", "none"):
        raise CannotWrite("4-bit weights, adapters other than LoRA, offload")
    if not row["seq_len"].isdigit() or not row["micro_batch"] or row["recompute"] != "none" or not row["optimizer"]:
        raise CannotWrite("length, batch, optimizer or recomputation not stated")
    gated = arch.get("act") in ("swiglu", "geglu")
    family = arch.get("family") or ""
    size = arch.get("head_dim") or arch["hidden"] // arch["heads"]
    parallel = not gated
    phi, falcon, stablelm = (
        "phi-" in row["model"].lower() and not gated,
        "falcon" in row["model"],
        "stablelm" in row["model"].lower(),
    )
    shape = {
        **{key: arch[key] for key in ("layers", "hidden", "heads", "ffn", "vocab")},
        "kv_heads": arch.get("kv_heads") or arch["heads"],
        "head_dim": size,
        "act": arch.get("act"),
        "gated": gated,
        "rmsnorm": gated,
        "bias": not gated and "falcon" not in family + row["model"],
        "head_bias": phi,
        "parallel_residual": parallel,
        "shared_norm": phi or falcon,
        "post_norms": "gemma" in row["model"] and arch["layers"] in (26, 42, 46),
        # Shares of the head that are turned, from the models' own configurations: phi 0.4 and 0.5, StableLM alpha 0.25.
        "rotary": 32 if phi else size // 4 if stablelm else size,
        "tied": False,  # LitGPT loads the head on its own, whether or not the checkpoint shares it
        "cap": (50.0, 30.0) if "gemma" in row["model"] and arch["layers"] in (26, 42, 46) else None,
    }
    tune = row["source"] == "torchtune"
    told = {
        "arch": shape | ({"tied": True} if tune and arch.get("tied") else {}),
        "batch": int(row["micro_batch"]),
        "length": int(row["seq_len"]),
        "rank": arch.get("lora_r") if method == "lora" else None,
        "targets": arch.get("lora_targets") or (["query", "value"] if method == "lora" else []),
        "chunked": row["source"].startswith("litgpt-") and "thunder" not in row["source"],
        "accumulate": 2 if row["global_batch"].isdigit() and int(row["global_batch"]) > int(row["micro_batch"]) else 1,
        "optimizer": {"fused": True} if tune else {},
    }
    return Program("decoder.py", told, "allocated")


def perceptron(row: Mapping[str, str]) -> Program:
    """Return a generated MLP; nvidia-smi reads what is reserved, and the driver's context."""
    arch = json.loads(row["arch_json"])
    try:
        layers = ast.literal_eval(arch["layers_list"])
    except (SyntaxError, ValueError):
        raise CannotWrite("list of layers cut off by the source table") from None
    inputs = int(row["model"].split("input:")[1].split("_")[0])
    told = {"inputs": inputs, "layers": [list(layer) for layer in layers], "batch": int(row["micro_batch"])}
    return Program("perceptron.py", told, "device", None)


WRITERS = {
    "litgpt-resource-tables": decoder,
    "litgpt-config-hub": decoder,
    "litgpt-thunder": decoder,
    "torchtune": decoder,
    "gpumemnet-mlp": perceptron,
}


def written(row: Mapping[str, str]) -> Program:
    """Return a row as a program.

    Raises:
        CannotWrite: With the reason.
    """
    if not row["measured_peak_gib"] or row["primary"] != "1":
        raise CannotWrite("no figure of its own")
    if row["source"] not in WRITERS:
        raise CannotWrite("code of the source is not written here")
    return WRITERS[row["source"]](row)


def measure(row: Mapping[str, str]) -> tuple[Program, float, int]:
    """Return the program, the published bytes, and what the dry run says for the same reading."""
    program = written(row)
    gpu = resolve_gpu(row["gpu"] if row["gpu"] != "A100" else "A100-80GB")
    job = Job(
        script=str(HERE / "programs" / program.file),
        root=str(HERE / "programs"),
        gpu=gpu,
        capacity_bytes=1 << 45,
        arguments=(json.dumps(program.told),),
        steps=3,
        seconds=280,
    )
    seen = dry_run(job)
    if seen.outcome == "failed":
        raise CannotWrite(f"{seen.error}: {seen.message}")
    held = seen.categories.get("parameter", 0) + seen.categories.get("optimizer state", 0)
    if held > float(row["measured_peak_gib"]) * GIB:
        raise CannotWrite("the source contradicts itself: weights and moments alone are more than the reading")
    if program.reading == "allocated":
        return program, float(row["measured_peak_gib"]) * GIB, seen.peak_bytes
    return program, float(row["measured_peak_gib"]) * GIB, seen.reserved_bytes


def main() -> int:
    """Run the chosen rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pattern", nargs="?", default="")
    parser.add_argument("-o", "--output")
    given = parser.parse_args()
    with open(DATA, encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if given.pattern in row["id"]]
    left: Counter[str] = Counter()
    found: list[tuple[Mapping[str, str], Program, float, int]] = []
    for row in rows:
        try:
            found.append((row, *measure(row)))
        except (CannotWrite, PreflightError) as error:
            left[str(error)[:110]] += 1
            continue
        published, seen = found[-1][2:]
        print(
            f"{row['id']}: {published / GIB:.3f} {seen / GIB:.3f} {seen / published - 1:+.1%}",
            file=sys.stderr,
            flush=True,
        )
    text = table(found, left)
    if given.output:
        Path(given.output).write_text(text, encoding="utf-8")
    else:
        print(text)
    return 0


def contexts(found: list[tuple[Mapping[str, str], Program, float, int]]) -> dict[str, float]:
    """Return, by source, the median of what nvidia-smi reads beside the reserved memory: the driver's context."""
    beside: defaultdict[str, list[float]] = defaultdict(list)
    for row, program, published, seen in found:
        if program.beside is None:
            beside[row["source"]].append(published - seen)
    return {source: statistics.median(values) for source, values in beside.items()}


def table(found: list[tuple[Mapping[str, str], Program, float, int]], left: Mapping[str, int]) -> str:
    """Return the table as Markdown."""
    context = contexts(found)
    lines, errors = [], defaultdict(list)
    for row, program, published, seen in found:
        whole = seen + (context[row["source"]] if program.beside is None else 0)
        errors[row["source"]].append(whole / published - 1)
        lines.append(
            f"| {row['id']} | {row['model']} | {row['gpu']} | {row['micro_batch']} x {row['seq_len'] or '-'} | "
            f"{program.reading} | {published / GIB:.3f} | {whole / GIB:.3f} | {whole / published - 1:+.1%} |"
        )
    head = ["| source | rows | median error | median of size | worst |", "| --- | ---: | ---: | ---: | ---: |"]
    for source, values in errors.items():
        sizes = sorted(map(abs, values))
        head.append(
            f"| {source} | {len(values)} | {statistics.median(values):+.1%} | {statistics.median(sizes):.1%} | "
            f"{max(values, key=abs):+.1%} |"
        )
    head += [""] + [
        f"{source}: {size / MIB:.0f} MiB, the median rest, taken as the context." for source, size in context.items()
    ]
    head += ["", "| row | model | GPU | batch x length | reading | published, GiB | dry run, GiB | error |"]
    head += ["| --- | --- | --- | --- | --- | ---: | ---: | ---: |"]
    reasons = [
        f"- {count} rows left out: {reason}" for reason, count in sorted(left.items(), key=lambda item: -item[1])
    ]
    return "\n".join([*head, *lines, "", *reasons]) + "\n"


if __name__ == "__main__":
    raise SystemExit(main())
