"""Hugging Face Trainer with a GPT-2 built from a tiny configuration: accumulation, evaluation, warm-up, no download."""

import argparse
import os
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed


class Progressions(Dataset):
    def __init__(self, n, seed, length=24, vocab=48):
        g = torch.Generator().manual_seed(seed)
        start = torch.randint(0, vocab, (n, 1), generator=g)
        stride = torch.randint(1, 6, (n, 1), generator=g)
        self.ids = (start + stride * torch.arange(length)) % vocab

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "labels": self.ids[i]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--size", type=int, default=32)
    args = parser.parse_args()
    set_seed(args.seed)
    config = GPT2Config(
        vocab_size=48, n_positions=32, n_embd=args.size, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=0
    )
    model = GPT2LMHeadModel(config)
    with tempfile.TemporaryDirectory() as out:
        training_args = TrainingArguments(
            output_dir=out,
            max_steps=args.steps,
            per_device_train_batch_size=8,
            gradient_accumulation_steps=2,
            learning_rate=3e-3,
            warmup_steps=max(1, args.steps // 10),
            weight_decay=0.01,
            lr_scheduler_type="cosine",
            logging_steps=10,
            eval_strategy="steps",
            eval_steps=15,
            save_strategy="no",
            report_to=[],
            use_cpu=True,
            seed=args.seed,
            disable_tqdm=True,
            dataloader_pin_memory=False,
        )
        trainer = Trainer(
            model=model,
            args=training_args,
            train_dataset=Progressions(400, args.seed),
            eval_dataset=Progressions(32, args.seed + 1),
        )
        result = trainer.train()
    print("trained", result.global_step, "steps, loss", round(result.training_loss, 4))


if __name__ == "__main__":
    main()
