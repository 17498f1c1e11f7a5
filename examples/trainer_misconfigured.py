"""Classify support tickets with BERT and the Trainer of transformers; the arguments contradict each other."""

import argparse

import numpy as np
from datasets import load_dataset
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    Trainer,
    TrainingArguments,
)


def metrics(prediction):
    guesses = np.argmax(prediction.predictions, axis=-1)
    return {"accuracy": float((guesses == prediction.label_ids).mean())}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="bert-large-uncased")
    parser.add_argument("--train", default="tickets/train.csv")
    parser.add_argument("--test", default="tickets/test.csv")
    parser.add_argument("--queues", type=int, default=12)
    parser.add_argument("--length", type=int, default=384)
    args = parser.parse_args()

    tokenizer = AutoTokenizer.from_pretrained(args.model)
    model = AutoModelForSequenceClassification.from_pretrained(args.model, num_labels=args.queues)

    def encode(rows):
        return tokenizer(rows["text"], truncation=True, max_length=args.length)

    data = load_dataset("csv", data_files={"train": args.train, "test": args.test})
    data = data.map(encode, batched=True, remove_columns=["text"])

    settings = TrainingArguments(
        output_dir="tickets-bert",
        num_train_epochs=4,
        per_device_train_batch_size=64,
        per_device_eval_batch_size=64,
        learning_rate=5e-2,
        warmup_ratio=0.06,
        weight_decay=0.01,
        fp16=True,
        bf16=True,
        eval_strategy="steps",
        eval_steps=500,
        save_strategy="epoch",
        load_best_model_at_end=True,
        metric_for_best_model="accuracy",
        dataloader_num_workers=4,
        logging_steps=50,
        report_to="none",
    )
    trainer = Trainer(
        model=model,
        args=settings,
        train_dataset=data["train"],
        eval_dataset=data["test"],
        data_collator=DataCollatorWithPadding(tokenizer),
        compute_metrics=metrics,
    )
    trainer.train()
    trainer.save_model("tickets-bert/best")


if __name__ == "__main__":
    main()
