"""How many configurations a second of one core two public planners work out: run by search_speed.py, one line of JSON each.

    python peer_rates.py calculon FOLDER SECONDS
    python peer_rates.py llm-analysis FOLDER SECONDS

FOLDER is a checkout of the planner. Each is asked for GPT-3 175B on 1,024 A100, in the form its own search or its own
entry point uses, for configurations drawn with a fixed seed.
"""

from __future__ import annotations

import json
import logging
import random
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

GPUS, BATCH = 1024, 1536
Case = dict[str, Any]


def timed(cases: Iterator[Case], one: Callable[[Case], object], seconds: float) -> dict[str, float]:
    """Work out cases until so many seconds of process time are over."""
    done, worked, begun = 0, 0, time.process_time()
    for case in cases:
        done += 1
        worked += one(case) is not None
        if time.process_time() - begun > seconds:
            break
    spent = time.process_time() - begun
    return {"configurations": done, "valid": worked, "seconds": spent, "rate": done / spent}


def calculon(folder: str, seconds: float) -> dict[str, float]:
    """Calculon's model on configurations of its own search ("llm-optimal-execution"), in random order."""
    sys.path.insert(0, folder)
    import calculon.io
    from calculon.llm import Llm, System

    app = Llm.Application(calculon.io.read_json_file(f"{folder}/models/gpt3-175B.json"))
    system = System(calculon.io.read_json_file(f"{folder}/systems/a100_80g.json"))
    logger = logging.Logger("quiet")

    def one(case: Case) -> object:
        try:
            model = Llm(app, logger)
            model.compile(system, Llm.Execution.from_json(case))
            model.run(system)
            return model.get_stats_json(False)
        except Llm.Error:
            return None

    return timed(_executions(Llm, app, random.Random(0)), one, seconds)


def _executions(llm: Any, app: Any, draw: random.Random) -> Iterator[Case]:
    """Draw executions that its search would try."""
    while True:
        tensor = draw.choice(list(llm.get_all_tensor_parallelisms(GPUS, app.hidden, app.attn_heads)))
        stages = draw.choice(list(llm.get_all_pipeline_parallelisms(GPUS, tensor, app.num_blocks)))
        data = llm.get_data_parallelism(GPUS, tensor, stages)
        batch = BATCH // data * data
        if not batch:
            continue
        recompute = draw.choice(["full", "attn_only", "none"])
        kind = draw.choice(["ar", "p2p_rs_ag", "rs_ag"])
        yield {
            "num_procs": GPUS, "tensor_par": tensor, "pipeline_par": stages, "data_par": data,
            "tensor_par_net": draw.choice([0, 1]) if tensor > 1 else 0,
            "pipeline_par_net": draw.choice([0, 1]) if stages > 1 else 0,
            "data_par_net": draw.choice([0, 1]) if data > 1 else 0,
            "batch_size": batch,
            "microbatch_size": draw.choice(list(llm.get_valid_microbatch_sizes(app.seq_size, tensor, data, batch, stages))),
            "datatype": "float16", "fused_activation": True, "attention_type": "multihead",
            "activation_recompute": recompute,
            "pipeline_interleaving": draw.choice(list(llm.get_valid_pipeline_interleavings(app.num_blocks, stages))),
            "optimizer_sharding": draw.choice([True, False]) if data > 1 else False, "tensor_par_comm_type": kind,
            "tensor_par_overlap": draw.choice(["none", "ring", "pipe"]) if tensor > 1 else "none",
            "seq_par_ag_redo": draw.choice([True, False]) if llm.can_redo_ag(kind, recompute) else False,
            "data_par_overlap": draw.choice([True, False]) if data > 1 else False,
            "weight_offload": False, "activations_offload": False, "optimizer_offload": False, "training": True,
        }  # fmt: skip


def llm_analysis(folder: str, seconds: float) -> dict[str, float]:
    """llm-analysis' training entry on an analysis that is built for each layout, as its own ``train`` does."""
    sys.path.insert(0, folder)
    from llm_analysis.analysis import ActivationRecomputation, DSZeRO, LLMAnalysis
    from llm_analysis.config import ModelConfig, ParallelismConfig, get_dtype_config_by_name, get_gpu_config_by_name
    from llm_analysis.logger import logger

    logger.setLevel(logging.ERROR)
    model = ModelConfig(
        name="gpt3-175b",
        num_layers=96,
        n_head=96,
        hidden_dim=12288,
        vocab_size=51200,
        max_seq_len=2048,
        ffn_embed_dim=49152,
    )
    gpu, dtype = get_gpu_config_by_name("a100-sxm-80gb"), get_dtype_config_by_name("w16a16e16")
    draw = random.Random(0)

    def cases() -> Iterator[Case]:
        while True:
            tensor, stages = draw.choice([1, 2, 4, 8]), draw.choice([1, 2, 4, 8, 16, 32])
            data = GPUS // tensor // stages
            sizes = [size for size in (1, 2, 3, 4, 6, 8, 12) if BATCH % (data * size) == 0]
            if sizes:
                yield {"tensor": tensor, "stages": stages, "data": data, "micro": draw.choice(sizes),
                       "again": draw.choice(list(ActivationRecomputation)), "zero": draw.choice(list(DSZeRO))}  # fmt: skip

    def one(case: Case) -> object:
        spread = ParallelismConfig(
            tp_size=case["tensor"], pp_size=case["stages"], dp_size=case["data"], sp_size=case["tensor"]
        )
        try:
            analysis = LLMAnalysis(model, gpu, dtype, spread, flops_efficiency=0.5)
            return analysis.training(
                batch_size_per_gpu=case["micro"], global_batch_size=BATCH, seq_len=2048, total_num_tokens=300_000_000_000,
                activation_recomputation=case["again"], ds_zero=case["zero"],
            )  # fmt: skip
        except (AssertionError, ValueError):
            return None

    return timed(cases(), one, seconds)


if __name__ == "__main__":
    peer, where, budget = sys.argv[1:4]
    print(json.dumps({"calculon": calculon, "llm-analysis": llm_analysis}[peer](where, float(budget))))
