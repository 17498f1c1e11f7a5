import torch
import torch.nn.functional as F
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForSequenceClassification, AutoTokenizer, DataCollatorWithPadding, get_linear_schedule_with_warmup

TEACHER, STUDENT = "bert-base-uncased", "distilbert-base-uncased"
device = torch.device("cuda")
tok = AutoTokenizer.from_pretrained(TEACHER)
teacher = AutoModelForSequenceClassification.from_pretrained(TEACHER, num_labels=2).to(device).eval()
student = AutoModelForSequenceClassification.from_pretrained(STUDENT, num_labels=2).to(device)
data = load_dataset("imdb", split="train").map(lambda r: tok(r["text"], truncation=True, max_length=256), batched=True)
data = data.remove_columns(["text", "token_type_ids"]).rename_column("label", "labels").with_format("torch")
loader = DataLoader(data, batch_size=32, shuffle=True, collate_fn=DataCollatorWithPadding(tok), num_workers=2)
opt = torch.optim.AdamW(student.parameters(), lr=3e-5, weight_decay=0.01)
total = 3 * len(loader)
sched = get_linear_schedule_with_warmup(opt, int(0.1 * total), total)
T, alpha = 2.0, 0.5
for epoch in range(3):
    student.train()
    for batch in loader:
        batch = {k: v.to(device) for k, v in batch.items()}
        with torch.no_grad(), torch.autocast("cuda", dtype=torch.bfloat16):
            t_logits = teacher(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
        with torch.autocast("cuda", dtype=torch.bfloat16):
            out = student(**batch)
            kd = F.kl_div(F.log_softmax(out.logits / T, dim=-1), F.softmax(t_logits / T, dim=-1), reduction="batchmean") * T * T
            loss = alpha * kd + (1 - alpha) * out.loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(student.parameters(), 1.0)
        opt.step()
        sched.step()
        opt.zero_grad()
student.save_pretrained("student")
