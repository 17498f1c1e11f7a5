"""Tuning on prompts of unlike lengths, padded: the labels are a copy of the tokens, padding and all."""
# source: https://github.com/deepspeedai/DeepSpeedExamples/pull/819
# first effect: step 1
# names: labels, cross_entropy, padding
# family: loss
# detectable: yes the loss counts places that the attention mask leaves out

import argparse
import random

import torch
from torch.utils.data import DataLoader, Dataset
from transformers import OPTConfig, OPTForCausalLM, get_cosine_schedule_with_warmup
from transformers.utils import logging

logging.set_verbosity_error()
PAD, END, LONGEST = 1, 2, 20


class PromptDataset(Dataset):
    def __init__(self, count, seed, fixed):
        chance = random.Random(seed)
        self.fixed = fixed
        self.rows = []
        for _ in range(count):
            word = chance.randrange(4, 30)
            self.rows.append([word + i % 3 for i in range(chance.randint(5, LONGEST - 1))] + [END])

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        row = self.rows[index]
        missing = LONGEST - len(row)
        input_ids = torch.tensor(row + [PAD] * missing)
        attention_mask = torch.tensor([1] * len(row) + [0] * missing)
        labels = input_ids.clone()
        if self.fixed:
            labels[attention_mask == 0] = -100
        return {"input_ids": input_ids, "attention_mask": attention_mask, "labels": labels}


def grouped(model, decay):
    """Weights with decay, biases and norms without."""
    plain = [p for n, p in model.named_parameters() if "bias" in n or "norm" in n]
    rest = [p for n, p in model.named_parameters() if "bias" not in n and "norm" not in n]
    return [{"params": rest, "weight_decay": decay}, {"params": plain, "weight_decay": 0.0}]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    config = OPTConfig(
        vocab_size=40,
        hidden_size=32,
        num_hidden_layers=2,
        ffn_dim=64,
        num_attention_heads=4,
        max_position_embeddings=32,
        word_embed_proj_dim=32,
        pad_token_id=PAD,
        bos_token_id=END,
        eos_token_id=END,
    )
    model = OPTForCausalLM(config)
    loader = DataLoader(PromptDataset(240, args.seed, args.fixed), batch_size=16, shuffle=True)
    optimizer = torch.optim.AdamW(grouped(model, 0.1), lr=2e-3, betas=(0.9, 0.95))
    lr_scheduler = get_cosine_schedule_with_warmup(optimizer, 3, args.steps)
    done = 0
    while done < args.steps:
        model.train()
        for batch in loader:
            loss = model(**batch, use_cache=False).loss
            loss.backward()
            optimizer.step()
            lr_scheduler.step()
            optimizer.zero_grad()
            done += 1
            if done == args.steps:
                break
        print(f"after {done}: {loss.item():.4f}")


if __name__ == "__main__":
    main()
