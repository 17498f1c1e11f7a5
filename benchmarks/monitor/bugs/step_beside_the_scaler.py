"""Besides `scaler.step`, the loop still calls `optimizer.step`: every update is done twice, once without the scaler's say."""
# source: https://github.com/IAHispano/Applio/pull/860
# first effect: step 1
# names: AdamW, GradScaler
# family: precision
# detectable: yes an optimizer whose gradients come from a scaled loss also steps outside the scaler, twice per backward pass

import argparse

import torch
from torch import nn


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    net_g = nn.Sequential(nn.Linear(24, 96), nn.LeakyReLU(0.1), nn.Linear(96, 24))
    optim_g = torch.optim.AdamW(net_g.parameters(), lr=2e-3, betas=(0.8, 0.99))
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for step in range(args.steps):
        mel = torch.randn(64, 24)
        with torch.autocast("cpu", dtype=torch.float16):
            wave = net_g(mel)
            loss_mel = nn.functional.l1_loss(wave.float(), mel.cumsum(1) / 5)
        optim_g.zero_grad()
        scaler.scale(loss_mel).backward()
        scaler.unscale_(optim_g)
        torch.nn.utils.clip_grad_norm_(net_g.parameters(), 50.0)
        scaler.step(optim_g)
        if not args.fixed:
            optim_g.step()
        scaler.update()
        if step % 6 == 0:
            print(f"step {step} loss_mel {loss_mel.item():.4f}")


if __name__ == "__main__":
    main()
