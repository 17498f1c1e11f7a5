import torch
from torch.utils.data import DataLoader
from transformers import T5ForConditionalGeneration, T5Tokenizer, Adafactor
tok = T5Tokenizer.from_pretrained("t5-small")
model = T5ForConditionalGeneration.from_pretrained("t5-small").cuda().train()
opt = Adafactor(model.parameters(), lr=1e-3, scale_parameter=False, relative_step=False)
pairs = [("translate: a", "b")] * 1000
def collate(batch):
    src, tgt = zip(*batch)
    x = tok(list(src), padding=True, truncation=True, max_length=128, return_tensors="pt")
    y = tok(list(tgt), padding=True, truncation=True, max_length=128, return_tensors="pt").input_ids
    y[y == tok.pad_token_id] = -100
    x["labels"] = y
    return x
for batch in DataLoader(pairs, batch_size=16, shuffle=True, collate_fn=collate, num_workers=2):
    batch = {k: v.cuda() for k, v in batch.items()}
    loss = model(**batch).loss
    opt.zero_grad(); loss.backward(); opt.step()
