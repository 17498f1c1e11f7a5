"""Hugging Face Trainer on a tiny BERT classifier: saves checkpoints, stops halfway, resumes with resume_from_checkpoint."""

import argparse
import tempfile

import numpy as np
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, set_seed


def examples(n, seed):
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(n):
        length = int(rng.integers(5, 14))
        ids = rng.integers(3, 30, length)
        rows.append({"input_ids": ids.tolist(), "label": int((ids > 16).mean() > 0.5)})
    return rows


def collate(rows):
    longest = max(len(r["input_ids"]) for r in rows)
    ids = torch.zeros(len(rows), longest, dtype=torch.long)
    for i, r in enumerate(rows):
        ids[i, : len(r["input_ids"])] = torch.tensor(r["input_ids"])
    return {"input_ids": ids, "attention_mask": (ids != 0).long(), "labels": torch.tensor([r["label"] for r in rows])}


def accuracy(prediction):
    return {"accuracy": float((prediction.predictions.argmax(-1) == prediction.label_ids).mean())}


def build(size):
    return BertForSequenceClassification(
        BertConfig(
            vocab_size=30,
            hidden_size=size,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=2 * size,
            max_position_embeddings=16,
        )
    )


def main():
    cli = argparse.ArgumentParser()
    cli.add_argument("--seed", type=int, default=1)
    cli.add_argument("--steps", type=int, default=32)
    cli.add_argument("--size", type=int, default=32)
    cfg = cli.parse_args()
    train, dev = examples(256, cfg.seed), examples(64, cfg.seed + 1)

    with tempfile.TemporaryDirectory() as folder:

        def trainer(max_steps):
            set_seed(cfg.seed)
            arguments = TrainingArguments(
                folder,
                max_steps=max_steps,
                per_device_train_batch_size=16,
                learning_rate=1e-3,
                lr_scheduler_type="constant",
                logging_steps=8,
                save_strategy="steps",
                save_steps=max(1, cfg.steps // 2),
                report_to="none",
                use_cpu=True,
                seed=cfg.seed,
                disable_tqdm=True,
                dataloader_pin_memory=False,
            )
            return Trainer(
                build(cfg.size),
                arguments,
                data_collator=collate,
                train_dataset=train,
                eval_dataset=dev,
                compute_metrics=accuracy,
            )

        trainer(max(1, cfg.steps // 2)).train()
        second = trainer(cfg.steps)
        second.train(resume_from_checkpoint=True)
        print(
            "evaluation", {k: round(v, 4) for k, v in second.evaluate().items() if k in ("eval_loss", "eval_accuracy")}
        )


if __name__ == "__main__":
    main()
