"""Values of shape [B] are taken from returns of shape [B, 1]: each is trained against every return of the batch."""
# source: https://github.com/RLinf/RLinf/issues/1568
# first effect: step 0
# names: critic
# family: loss
# detectable: yes the difference of prediction and target has as many elements as the square of either, inside the loss

import argparse

import torch
from torch import nn


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    body = nn.Sequential(nn.Linear(8, 32), nn.Tanh())
    actor, critic = nn.Linear(32, 3), nn.Linear(32, 1)
    everything = nn.ModuleDict({"body": body, "actor": actor, "critic": critic})
    optimizer = torch.optim.Adam(everything.parameters(), lr=3e-3)
    worth = torch.randn(8)
    for step in range(args.steps // 4):
        seen = torch.randn(64, 8)
        with torch.no_grad():
            chosen = torch.distributions.Categorical(logits=actor(body(seen)))
            action = chosen.sample()
            before = chosen.log_prob(action)
            held = critic(body(seen))
            returns = (seen @ worth + 0.3 * action).unsqueeze(1)
            advantage = (returns - held).squeeze(1)
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        for part in torch.randperm(64).view(4, 16):
            hidden = body(seen[part])
            chosen = torch.distributions.Categorical(logits=actor(hidden))
            ratio = (chosen.log_prob(action[part]) - before[part]).exp()
            policy = -torch.min(ratio * advantage[part], ratio.clamp(0.8, 1.2) * advantage[part]).mean()
            values = critic(hidden)
            if not args.fixed:
                values = values.squeeze(-1)
            value = (returns[part] - values).pow(2).mean()
            loss = policy + 0.5 * value - 0.01 * chosen.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(everything.parameters(), 0.5)
            optimizer.step()
        print(f"round {step} policy {policy.item():.4f} value {value.item():.4f}")


if __name__ == "__main__":
    main()
