"""An interrupted run goes on with weights and moments, and its schedule of two stages begins at the first warm-up."""
# source: https://github.com/lightly-ai/lightly-train/pull/301
# first effect: step 30
# names: TwoStageWarmupPoly, LambdaLR, lr
# family: checkpoint
# detectable: yes the rate falls back to that of the first step when the run is resumed

import argparse
import io

import torch
from torch import nn


class TwoStageWarmupPoly(torch.optim.lr_scheduler.LambdaLR):
    """The head warms up at once, the backbone when that is done; both decay by a power."""

    def __init__(self, optimizer, warmups, steps, power=0.9):
        def factor(head):
            begin, length = (0, warmups[0]) if head else (warmups[0], warmups[1])

            def at(step):
                if step < begin:
                    return 0.0
                if step < begin + length:
                    return (step - begin + 1) / length
                return (1 - (step - begin - length) / max(1, steps - begin - length)) ** power

            return at

        super().__init__(optimizer, [factor(head) for head in (False, True)])


class Segmenter(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1))
        self.queries = nn.Conv2d(16, 3, 1)

    def forward(self, x):
        return self.queries(torch.relu(self.backbone(x)))


def build(steps):
    model = Segmenter()
    groups = [{"params": model.backbone.parameters(), "lr": 5e-3}, {"params": model.queries.parameters(), "lr": 1e-2}]
    optimizer = torch.optim.AdamW(groups)
    return model, optimizer, TwoStageWarmupPoly(optimizer, (6, 10), steps)


def scenes():
    x = torch.rand(8, 3, 10, 10)
    return x, nn.functional.avg_pool2d(x, 3, 1, 1).argmax(1)


def run(model, optimizer, scheduler, first, last):
    for step in range(first, last):
        x, y = scenes()
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        if step % 10 == 9:
            print(f"{step + 1}: loss {loss.item():.4f}, rates {[f'{rate:.1e}' for rate in scheduler.get_last_lr()]}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model, optimizer, scheduler = build(args.steps)
    run(model, optimizer, scheduler, 0, 30)
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 30}
    if args.fixed:
        state["scheduler"] = scheduler.state_dict()
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    model, optimizer, scheduler = build(args.steps)
    state = torch.load(file)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    if "scheduler" in state:
        scheduler.load_state_dict(state["scheduler"])
    else:
        for group, rate in zip(optimizer.param_groups, scheduler.get_last_lr(), strict=True):
            group["lr"] = rate
    run(model, optimizer, scheduler, state["step"], args.steps)


if __name__ == "__main__":
    main()
