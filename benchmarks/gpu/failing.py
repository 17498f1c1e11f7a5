"""Fails in one of the ways in which only a GPU fails: python failing.py KIND.

``fail.py`` runs every kind, keeps what it prints, and asks ``preflight investigate`` what it was.
"""

# kind: out_of_memory; category: oom
# kind: index_out_of_range; category: data, usercode
# kind: label_out_of_range; category: data, usercode
# kind: illegal_access; category: usercode, hardware
# kind: two_ranks_on_one_card; category: environment, usercode, network
# kind: wrong_device; category: usercode
# kind: no_such_card; category: environment, usercode
# kind: nan; category: numerical
# kind: anomaly; category: numerical
# kind: scale_collapse; category: numerical
# kind: in_place; category: usercode
# kind: graph_capture; category: usercode
# kind: killed; category: oom, other, preemption
# kind: slow_growth; category: oom
# kind: dtypes_differ; category: usercode
# kind: nccl_timeout; category: usercode, network, other
# kind: shapes_differ; category: usercode
# kind: healthy; category: none
# kind: healthy_skipped_steps; category: none

import os
import signal
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn


def model_of(width: int = 512) -> nn.Module:
    return nn.Sequential(nn.Embedding(1000, width), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1000))


def train(kind: str, steps: int = 60) -> None:
    torch.manual_seed(0)
    device = "cuda:9" if kind == "no_such_card" else "cuda"
    model = model_of().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cuda", enabled="skipped" in kind or kind == "scale_collapse")
    kept = []
    for step in range(steps):
        ids = torch.randint(0, 1000, (64, 128), device=device)
        labels = ids.roll(-1, dims=1)
        if step == 30:
            if kind == "index_out_of_range":
                ids[3, 5] = 1000
            if kind == "label_out_of_range":
                labels[3, 5] = 1234
            if kind == "wrong_device":
                ids = ids.cpu()
            if kind == "out_of_memory":
                kept.append(torch.empty(1 << 40, dtype=torch.uint8, device=device))
            if kind == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            if kind == "dtypes_differ":
                model[1].half()
            if kind == "shapes_differ":
                labels = labels[:, :-1]
        if kind == "slow_growth":
            kept.append(torch.empty(4 << 30, dtype=torch.uint8, device=device))
        with torch.autocast("cuda", dtype=torch.float16, enabled=scaler.is_enabled()):
            loss = F.cross_entropy(model(ids).flatten(0, 1), labels.flatten())
        if kind in ("nan", "scale_collapse") and step >= 30:
            loss = loss * float("nan")
        if kind == "anomaly" and step == 30:
            torch.autograd.set_detect_anomaly(True)
            loss = loss + torch.sqrt(model[1].weight * 0.0).sum() * 0.0
        if kind == "healthy_skipped_steps" and step in (12, 13):
            loss = loss * 1e30
        optimizer.zero_grad()
        if kind == "in_place" and step == 30:
            model[1].weight.data.add_(0.0)
            with torch.no_grad():
                model[3].weight.mul_(1.0)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        if step % 5 == 0:
            scale = f" | loss scale {scaler.get_scale():g}" if scaler.is_enabled() else ""
            print(f"step {step}/{steps} | loss {loss.item():.4f} | lr 1.0e-03{scale}", flush=True)
        if kind == "illegal_access" and step == 30:
            wild(model[1].weight)
        if kind == "graph_capture" and step == 30:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                print("in the graph", loss.item())
    print("training finished")


def wild(tensor: torch.Tensor) -> None:
    """Write far outside, as a kernel of one's own with a wrong index does."""
    import triton
    import triton.language as tl

    @triton.jit
    def kernel(into, far: tl.constexpr):
        tl.store(into + far + tl.arange(0, 64), 1.0)

    kernel[(1,)](tensor, 1 << 40)


def ranks(kind: str) -> None:
    import datetime

    from torch import distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    rank = int(os.environ["RANK"])
    torch.cuda.set_device(0)
    dist.init_process_group("nccl", timeout=datetime.timedelta(seconds=20))
    model = DistributedDataParallel(model_of().cuda())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(40):
        ids = torch.randint(0, 1000, (64, 128), device="cuda")
        loss = F.cross_entropy(model(ids).flatten(0, 1), ids.roll(-1, dims=1).flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 0:
            print(f"[rank {rank}] step {step} loss {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


def hang() -> None:
    """A collective of one rank that its own stream never reaches: the watchdog ends it."""
    import datetime

    from torch import distributed as dist

    os.environ |= {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29611"}
    torch.cuda.set_device(0)
    dist.init_process_group("nccl", timeout=datetime.timedelta(seconds=8))
    tensor = torch.ones(1 << 20, device="cuda")
    for step in range(20):
        if step == 10:
            torch.cuda._sleep(int(60e9))
        dist.all_reduce(tensor)
        print(f"step {step} reduced", flush=True)
        if step < 10:
            torch.cuda.synchronize()
    time.sleep(25)
    torch.cuda.synchronize()


if __name__ == "__main__":
    asked = sys.argv[1]
    if asked == "two_ranks_on_one_card":
        ranks(asked)
    elif asked == "nccl_timeout":
        hang()
    else:
        train(asked)
