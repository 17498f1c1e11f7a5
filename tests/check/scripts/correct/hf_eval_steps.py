from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments, EarlyStoppingCallback
from datasets import load_dataset
tok = AutoTokenizer.from_pretrained("distilbert-base-uncased")
ds = load_dataset("imdb").map(lambda b: tok(b["text"], truncation=True, max_length=512, padding=True), batched=True)
model = AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased", num_labels=2)
args = TrainingArguments(output_dir="out", eval_strategy="steps", eval_steps=250, save_strategy="steps", save_steps=500, load_best_model_at_end=True, metric_for_best_model="eval_loss", greater_is_better=False, warmup_ratio=0.06, weight_decay=0.01, learning_rate=2e-5)
t = Trainer(model=model, args=args, train_dataset=ds["train"], eval_dataset=ds["test"], callbacks=[EarlyStoppingCallback(3)])
t.train()
