"""A T5 built from a small configuration, trained in a loop of one's own with a linear warm-up schedule and generation."""

import argparse

import torch
from torch.utils.data import DataLoader
from transformers import T5Config, T5ForConditionalGeneration, get_linear_schedule_with_warmup, set_seed

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=36)
parser.add_argument("--size", type=int, default=32)
args = parser.parse_args()
set_seed(args.seed)

config = T5Config(
    vocab_size=24, d_model=args.size, d_ff=2 * args.size, d_kv=8, num_layers=2, num_heads=4,
    pad_token_id=0, eos_token_id=1, decoder_start_token_id=0, dropout_rate=0.05,
)  # fmt: skip
model = T5ForConditionalGeneration(config)


def sort_task(n):
    digits = torch.randint(2, 24, (n, 6))
    eos = torch.ones(n, 1, dtype=torch.long)
    return list(zip(torch.cat([digits, eos], 1), torch.cat([digits.sort(1).values, eos], 1)))


train_dl = DataLoader(sort_task(288), batch_size=16, shuffle=True)
eval_dl = DataLoader(sort_task(32), batch_size=32)
no_decay = ["bias", "layer_norm.weight"]
optimizer = torch.optim.AdamW(
    [
        {
            "params": [p for n, p in model.named_parameters() if not any(nd in n for nd in no_decay)],
            "weight_decay": 0.01,
        },
        {"params": [p for n, p in model.named_parameters() if any(nd in n for nd in no_decay)], "weight_decay": 0.0},
    ],
    lr=4e-3,
)
lr_scheduler = get_linear_schedule_with_warmup(optimizer, num_warmup_steps=4, num_training_steps=args.steps)
completed_steps = 0
for epoch in range(-(-args.steps // len(train_dl))):
    model.train()
    for input_ids, labels in train_dl:
        outputs = model(input_ids=input_ids, labels=labels)
        loss = outputs.loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        lr_scheduler.step()
        optimizer.zero_grad()
        completed_steps += 1
        if completed_steps % 6 == 0:
            print(f"step {completed_steps}: {loss.item():.4f}")
        if completed_steps >= args.steps:
            break
    model.eval()
    for input_ids, labels in eval_dl:
        with torch.no_grad():
            generated = model.generate(input_ids, max_new_tokens=7, do_sample=False)
        print(f"epoch {epoch} first answer {generated[0].tolist()} wanted {labels[0].tolist()}")
