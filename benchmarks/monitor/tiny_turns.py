"""The programs of tiny steps that `tiny_steps.py` measures: a few updates whenever it is asked for some, and their cost.

Each is a plain training loop of a kind whose passes take less than a millisecond; `next` runs it to its next update.
"""

import json
import os
import sys
import time
from itertools import pairwise

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.func import functional_call
from turns import answered, keep_waiting_from_recorder


def network(*sizes):
    layers = [layer for pair in pairwise(sizes) for layer in (nn.Linear(*pair), nn.Tanh())]
    return nn.Sequential(*layers[:-1])


def ppo():
    """A rollout of 128 passes of two networks without gradients, then four epochs of four minibatches."""
    actor, critic = network(4, 64, 64, 2), network(4, 64, 64, 1)
    optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=1e-3, eps=1e-5)
    while True:
        seen, acted, chances, values = [], [], [], []
        state = torch.randn(8, 4)
        for _ in range(128):
            with torch.no_grad():
                choice = torch.distributions.Categorical(logits=actor(state))
                action, value = choice.sample(), critic(state).flatten()
                seen.append(state)
                acted.append(action)
                chances.append(choice.log_prob(action))
                values.append(value)
            state = 0.9 * state + 0.1 * torch.randn(8, 4) + 0.01 * (action[:, None] - 0.5)
        states, actions, before = torch.cat(seen), torch.cat(acted), torch.cat(chances)
        returns = -states.square().sum(1)
        gains = returns - torch.cat(values)
        for _ in range(4):
            for part in torch.randperm(len(states)).chunk(4):
                choice = torch.distributions.Categorical(logits=actor(states[part]))
                ratio = (choice.log_prob(actions[part]) - before[part]).exp()
                pushed = torch.min(ratio * gains[part], ratio.clamp(0.8, 1.2) * gains[part]).mean()
                loss = F.mse_loss(critic(states[part]).flatten(), returns[part]) - pushed
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(actor.parameters(), 0.5)
                optimizer.step()
                yield loss


def dqn():
    """One pass on a single state without gradients, one update from a memory, and a target network."""
    values, target = network(4, 64, 64, 2), network(4, 64, 64, 2)
    target.load_state_dict(values.state_dict())
    optimizer = torch.optim.Adam(values.parameters(), lr=1e-3)
    memory, number, state = torch.randn(4096, 4), 0, torch.randn(1, 4)
    while True:
        for _ in range(4):
            with torch.no_grad():
                action = int(values(state).argmax(1))
            state = 0.9 * state + 0.1 * torch.randn(1, 4) + 0.01 * action
            memory[number % 4096] = state[0]
            number += 1
        rows = memory[torch.randint(4095, (64,))]
        with torch.no_grad():
            wanted = -rows.square().sum(1) + 0.99 * target(rows).amax(1)
        loss = F.smooth_l1_loss(values(rows)[:, 0], wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if number % 400 == 0:
            target.load_state_dict(values.state_dict())
        yield loss


def reinforce():
    """Fifty passes on a single state with gradients, and one update of them."""
    policy = network(4, 128, 2)
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-3)
    while True:
        chances, rewards, state = [], [], torch.randn(1, 4)
        for _ in range(50):
            choice = torch.distributions.Categorical(logits=policy(state))
            action = choice.sample()
            chances.append(choice.log_prob(action))
            state = 0.9 * state + 0.1 * torch.randn(1, 4) + 0.01 * (action[:, None] - 0.5)
            rewards.append(-state.square().sum())
        loss = -(torch.cat(chances) * torch.stack(rewards)).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss


def evaluated():
    """Ten updates from a loader, then two hundred small batches in evaluation."""
    model = nn.Sequential(nn.Linear(16, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    data = torch.utils.data.TensorDataset(torch.randn(2000, 16), torch.randint(4, (2000,)))
    train = torch.utils.data.DataLoader(torch.utils.data.Subset(data, range(80)), batch_size=8, shuffle=True)
    held = torch.utils.data.DataLoader(torch.utils.data.Subset(data, range(80, 880)), batch_size=4)
    while True:
        model.train()
        for x, y in train:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            yield loss
        model.eval()
        with torch.no_grad():
            sum((model(x).argmax(1) == y).sum() for x, y in held)


def gan():
    """One update of each of two small networks."""
    maker, judge = network(8, 64, 64, 2), network(2, 64, 64, 1)
    makes, judges = (torch.optim.Adam(one.parameters(), lr=2e-4, betas=(0.5, 0.999)) for one in (maker, judge))
    real, made = torch.ones(32, 1), torch.zeros(32, 1)
    while True:
        angle = 6.28 * torch.rand(32, 1)
        fake = maker(torch.randn(32, 8))
        judges.zero_grad()
        first = F.binary_cross_entropy_with_logits(judge(torch.cat([angle.sin(), angle.cos()], 1)), real)
        (first + F.binary_cross_entropy_with_logits(judge(fake.detach()), made)).backward()
        judges.step()
        makes.zero_grad()
        loss = F.binary_cross_entropy_with_logits(judge(fake), real)
        loss.backward()
        makes.step()
        yield loss


def lbfgs():
    """Up to twenty evaluations of a closure in each step."""
    model = network(2, 32, 1)
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=20)
    while True:
        x = torch.randn(64, 2)
        y = x.prod(1, keepdim=True)

        def closure(x=x, y=y):
            optimizer.zero_grad()
            loss = F.mse_loss(model(x), y)
            loss.backward()
            return loss

        yield optimizer.step(closure)


def maml():
    """Four tasks with three inner steps each, through which one outer step goes."""
    model = network(1, 40, 40, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    while True:
        losses = []
        for _ in range(4):
            x = torch.randn(20, 1)
            y = (x + torch.rand(1)).sin()
            weights = dict(model.named_parameters())
            for _ in range(3):
                inner = F.mse_loss(functional_call(model, weights, (x[:10],)), y[:10])
                slopes = torch.autograd.grad(inner, list(weights.values()), create_graph=True)
                weights = {name: one - 0.01 * slope for (name, one), slope in zip(weights.items(), slopes, strict=True)}
            losses.append(F.mse_loss(functional_call(model, weights, (x[10:],)), y[10:]))
        loss = torch.stack(losses).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss


PROGRAMS = {one.__name__: one for one in (ppo, dqn, reinforce, evaluated, gan, lbfgs, maml)}


def main():
    torch.set_num_threads(1)
    waited = [0.0]
    keep_waiting_from_recorder(waited)
    if os.environ.get("TINY_HOOKS"):  # what any tool costs that hears of the passes: two hooks that do nothing
        nn.modules.module.register_module_forward_pre_hook(lambda module, args: None)
        nn.modules.module.register_module_forward_hook(lambda module, args, output: None)
    torch.manual_seed(0)
    training, updates = PROGRAMS[os.environ["TINY_PROGRAM"]](), int(os.environ["TINY_UPDATES"])
    with open(os.environ["TURNS_OUT"], "w") as answers, open(os.environ["TURNS_IN"]) as asked:
        loss, answered_at = None, time.perf_counter()
        for _ in asked:
            waited[0] += time.perf_counter() - answered_at
            main_before, wall_before = time.thread_time(), time.perf_counter()
            for _ in range(updates):
                loss = next(training)
            main_after, wall_after = time.thread_time(), time.perf_counter()
            answered(answers, main=main_after - main_before, wall=wall_after - wall_before, process=time.process_time())
            answered_at = time.perf_counter()
        print(json.dumps({"loss": loss.item().hex()}), file=answers, flush=True)


if __name__ == "__main__":
    sys.exit(main())
