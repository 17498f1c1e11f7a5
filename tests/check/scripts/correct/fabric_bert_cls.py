import lightning as L
import torch
from torch.utils.data import DataLoader, TensorDataset
from transformers import BertConfig, BertForSequenceClassification


def main():
    fabric = L.Fabric(accelerator="cuda", devices=1, precision="bf16-mixed")
    fabric.launch()
    fabric.seed_everything(1)
    ids = torch.randint(0, 30522, (512, 128))
    y = torch.randint(0, 2, (512,))
    loader = DataLoader(TensorDataset(ids, y), batch_size=32, shuffle=True)
    model = BertForSequenceClassification(BertConfig(num_labels=2))
    opt = torch.optim.AdamW(model.parameters(), lr=3e-5)
    model, opt = fabric.setup(model, opt)
    loader = fabric.setup_dataloaders(loader)
    model.train()
    for epoch in range(3):
        for i, (a, b) in enumerate(loader):
            accumulating = i % 4 != 3
            with fabric.no_backward_sync(model, enabled=accumulating):
                loss = model(input_ids=a, labels=b).loss / 4
                fabric.backward(loss)
            if not accumulating:
                fabric.clip_gradients(model, opt, max_norm=1.0)
                opt.step()
                opt.zero_grad()
    fabric.save("state.ckpt", {"model": model, "optimizer": opt})


if __name__ == "__main__":
    main()
