from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments
from datasets import load_dataset
tok = AutoTokenizer.from_pretrained("bert-base-uncased")
ds = load_dataset("imdb")
ds = ds.map(lambda b: tok(b["text"], truncation=True, max_length=256, padding="max_length"), batched=True)
model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased", num_labels=2)
args = TrainingArguments("out", eval_strategy="epoch", save_strategy="epoch", load_best_model_at_end=True, bf16=True, per_device_train_batch_size=16, learning_rate=2e-5, seed=1)
Trainer(model, args, train_dataset=ds["train"], eval_dataset=ds["test"], processing_class=tok).train()
