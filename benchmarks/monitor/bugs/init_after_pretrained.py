"""The runner calls `init_weights` when training begins, after the pretrained backbone was loaded: the pretrained weights are gone."""
# source: https://github.com/zshn25/DINOv2_mmseg/pull/1
# first effect: step 0
# names: backbone.patch.weight, backbone.mlp.weight, trunc_normal_, load_state_dict
# family: init
# detectable: yes weights that were loaded from a file are overwritten by an initialiser before the first step

import argparse
import io

import torch
from torch import nn


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch = nn.Conv1d(1, 24, 4, stride=4)
        self.mlp = nn.Linear(24, 24)

    def forward(self, x):
        h = self.patch(x).transpose(1, 2)
        return h + torch.tanh(self.mlp(h))


class Segmentor(nn.Module):
    def __init__(self, weights):
        super().__init__()
        self.backbone = Backbone()
        self.decode_head = nn.Linear(24, 4)
        self.backbone.load_state_dict(torch.load(weights))
        self.is_init = False

    def init_weights(self, again):
        modules = self.modules() if again else self.decode_head.modules()
        for m in modules:
            if isinstance(m, nn.Linear | nn.Conv1d):
                nn.init.trunc_normal_(m.weight, std=0.02)
                nn.init.zeros_(m.bias)

    def forward(self, x):
        return self.decode_head(self.backbone(x)).flatten(1)


def pretrained(seed):
    torch.manual_seed(seed + 50)
    file = io.BytesIO()
    torch.save(Backbone().state_dict(), file)
    file.seek(0)
    return file


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()
    weights = pretrained(args.seed)
    torch.manual_seed(args.seed)
    model = Segmentor(weights)
    model.init_weights(again=not args.fixed)
    optimizer = torch.optim.AdamW(
        [{"params": model.backbone.parameters(), "lr": 1e-4}, {"params": model.decode_head.parameters(), "lr": 1e-2}]
    )
    torch.manual_seed(args.seed)
    for it in range(args.steps):
        signal = torch.randn(32, 1, 32)
        mask = (signal[:, 0] > 0).float()
        loss = nn.functional.binary_cross_entropy_with_logits(model(signal), mask)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if it % 6 == 0:
            print(f"iter {it} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
