import argparse
import math
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from datasets import load_dataset
from torch.utils.data import DataLoader
from tqdm.auto import tqdm
from transformers import AutoModelForCausalLM, AutoTokenizer, default_data_collator, get_scheduler


def parse_args():
    p = argparse.ArgumentParser()
    p.add_argument("--model_name_or_path", default="distilgpt2")
    p.add_argument("--block_size", type=int, default=512)
    p.add_argument("--per_device_train_batch_size", type=int, default=8)
    p.add_argument("--learning_rate", type=float, default=5e-5)
    p.add_argument("--weight_decay", type=float, default=0.01)
    p.add_argument("--num_train_epochs", type=int, default=3)
    p.add_argument("--max_train_steps", type=int, default=None)
    p.add_argument("--gradient_accumulation_steps", type=int, default=4)
    p.add_argument("--num_warmup_steps", type=int, default=100)
    p.add_argument("--seed", type=int, default=17)
    p.add_argument("--output_dir", default="out")
    return p.parse_args()


def main():
    args = parse_args()
    accelerator = Accelerator(gradient_accumulation_steps=args.gradient_accumulation_steps, mixed_precision="bf16")
    set_seed(args.seed)
    tokenizer = AutoTokenizer.from_pretrained(args.model_name_or_path)
    model = AutoModelForCausalLM.from_pretrained(args.model_name_or_path)
    raw = load_dataset("wikitext", "wikitext-2-raw-v1")
    tokenized = raw.map(lambda ex: tokenizer(ex["text"]), batched=True, remove_columns=["text"])

    def group(examples):
        joined = {k: sum(examples[k], []) for k in examples}
        total = len(joined["input_ids"]) // args.block_size * args.block_size
        result = {k: [t[i : i + args.block_size] for i in range(0, total, args.block_size)] for k, t in joined.items()}
        result["labels"] = result["input_ids"].copy()
        return result

    lm = tokenized.map(group, batched=True)
    train_dl = DataLoader(lm["train"], shuffle=True, collate_fn=default_data_collator, batch_size=args.per_device_train_batch_size)
    eval_dl = DataLoader(lm["validation"], collate_fn=default_data_collator, batch_size=args.per_device_train_batch_size)
    no_decay = ["bias", "ln_1.weight", "ln_2.weight", "ln_f.weight"]
    groups = [
        {"params": [p for n, p in model.named_parameters() if not any(nd in n for nd in no_decay)], "weight_decay": args.weight_decay},
        {"params": [p for n, p in model.named_parameters() if any(nd in n for nd in no_decay)], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=args.learning_rate)
    updates = math.ceil(len(train_dl) / args.gradient_accumulation_steps)
    if args.max_train_steps is None:
        args.max_train_steps = args.num_train_epochs * updates
    scheduler = get_scheduler("cosine", optimizer, num_warmup_steps=args.num_warmup_steps * accelerator.num_processes, num_training_steps=args.max_train_steps * accelerator.num_processes)
    model, optimizer, train_dl, eval_dl, scheduler = accelerator.prepare(model, optimizer, train_dl, eval_dl, scheduler)
    bar = tqdm(range(args.max_train_steps), disable=not accelerator.is_local_main_process)
    done = 0
    for epoch in range(args.num_train_epochs):
        model.train()
        for batch in train_dl:
            with accelerator.accumulate(model):
                loss = model(**batch).loss
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
            if accelerator.sync_gradients:
                bar.update(1)
                done += 1
            if done >= args.max_train_steps:
                break
        model.eval()
        losses = []
        for batch in eval_dl:
            with torch.no_grad():
                loss = model(**batch).loss
            losses.append(accelerator.gather_for_metrics(loss.repeat(args.per_device_train_batch_size)))
        accelerator.print(epoch, math.exp(torch.cat(losses).mean()))
    accelerator.wait_for_everyone()
    accelerator.unwrap_model(model).save_pretrained(args.output_dir, is_main_process=accelerator.is_main_process, save_function=accelerator.save)


if __name__ == "__main__":
    main()
