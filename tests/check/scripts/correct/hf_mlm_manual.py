import torch
from torch.utils.data import DataLoader
from transformers import BertForMaskedLM, BertTokenizerFast, get_linear_schedule_with_warmup
tok = BertTokenizerFast.from_pretrained("bert-base-uncased")
model = BertForMaskedLM.from_pretrained("bert-base-uncased").cuda()
model.train()
texts = ["hello world"] * 1000
def collate(b):
    enc = tok(b, padding=True, truncation=True, max_length=128, return_tensors="pt")
    labels = enc.input_ids.clone()
    p = torch.full(labels.shape, 0.15)
    p.masked_fill_(enc.attention_mask == 0, 0.0)
    masked = torch.bernoulli(p).bool()
    labels[~masked] = -100
    enc["input_ids"][masked] = tok.mask_token_id
    enc["labels"] = labels
    return enc
loader = DataLoader(texts, batch_size=32, shuffle=True, collate_fn=collate, num_workers=2)
opt = torch.optim.AdamW(model.parameters(), lr=5e-5)
sched = get_linear_schedule_with_warmup(opt, 10, 3 * len(loader))
for epoch in range(3):
    for enc in loader:
        loss = model(**enc.to("cuda")).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step(); sched.step(); opt.zero_grad()
