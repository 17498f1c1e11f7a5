import logging
import sys
from dataclasses import dataclass, field
from typing import Optional

import evaluate
import numpy as np
from datasets import load_dataset
from transformers import (
    AutoConfig, AutoModelForSequenceClassification, AutoTokenizer, DataCollatorWithPadding, EarlyStoppingCallback,
    HfArgumentParser, Trainer, TrainingArguments, set_seed,
)

logger = logging.getLogger(__name__)


@dataclass
class ModelArguments:
    model_name_or_path: str = field(default="bert-base-uncased", metadata={"help": "model"})
    cache_dir: Optional[str] = None


@dataclass
class DataArguments:
    task_name: str = "mrpc"
    max_seq_length: int = 128
    pad_to_max_length: bool = False


def main():
    parser = HfArgumentParser((ModelArguments, DataArguments, TrainingArguments))
    if len(sys.argv) == 2 and sys.argv[1].endswith(".json"):
        model_args, data_args, training_args = parser.parse_json_file(json_file=sys.argv[1])
    else:
        model_args, data_args, training_args = parser.parse_args_into_dataclasses()
    set_seed(training_args.seed)
    raw = load_dataset("nyu-mll/glue", data_args.task_name, cache_dir=model_args.cache_dir)
    labels = raw["train"].features["label"].names
    config = AutoConfig.from_pretrained(model_args.model_name_or_path, num_labels=len(labels), cache_dir=model_args.cache_dir)
    tokenizer = AutoTokenizer.from_pretrained(model_args.model_name_or_path)
    model = AutoModelForSequenceClassification.from_pretrained(model_args.model_name_or_path, config=config)
    padding = "max_length" if data_args.pad_to_max_length else False

    def preprocess(examples):
        return tokenizer(examples["sentence1"], examples["sentence2"], padding=padding, max_length=data_args.max_seq_length, truncation=True)

    with training_args.main_process_first(desc="map"):
        raw = raw.map(preprocess, batched=True)
    metric = evaluate.load("glue", data_args.task_name)

    def compute_metrics(p):
        preds = np.argmax(p.predictions[0] if isinstance(p.predictions, tuple) else p.predictions, axis=1)
        return metric.compute(predictions=preds, references=p.label_ids)

    trainer = Trainer(
        model=model, args=training_args, train_dataset=raw["train"], eval_dataset=raw["validation"],
        compute_metrics=compute_metrics, processing_class=tokenizer, data_collator=DataCollatorWithPadding(tokenizer),
    )
    if training_args.do_train:
        result = trainer.train(resume_from_checkpoint=training_args.resume_from_checkpoint)
        trainer.save_model()
        trainer.log_metrics("train", result.metrics)
    if training_args.do_eval:
        trainer.log_metrics("eval", trainer.evaluate())


if __name__ == "__main__":
    main()
