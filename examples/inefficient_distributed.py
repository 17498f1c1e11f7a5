"""Fine-tune a vision transformer on several GPUs, and lose most of them to waiting.

    torchrun --nproc_per_node 8 examples/inefficient_distributed.py --data imagenet/train

It trains; it is only far slower than it has to be, and each epoch sees the images in the same order.
"""

import argparse
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler
from torchvision import datasets, transforms
from transformers import ViTForImageClassification


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="imagenet/train")
    parser.add_argument("--batch-size", type=int, default=64, help="images of one GPU in one forward")
    parser.add_argument("--accumulate", type=int, default=8)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--lr", type=float, default=1e-4)
    return parser.parse_args()


def make_loader(args):
    crop = transforms.Compose(
        [
            transforms.RandomResizedCrop(224),
            transforms.RandomHorizontalFlip(),
            transforms.ToTensor(),
            transforms.Normalize((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
        ]
    )
    images = datasets.ImageFolder(args.data, crop)
    sampler = DistributedSampler(images)
    return DataLoader(images, batch_size=args.batch_size, sampler=sampler)


def main():
    args = arguments()
    dist.init_process_group("nccl")
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    device = torch.device("cuda", local_rank)

    loader = make_loader(args)
    model = ViTForImageClassification.from_pretrained("google/vit-base-patch16-224-in21k", num_labels=1000)
    model = DistributedDataParallel(model.to(device), device_ids=[local_rank], find_unused_parameters=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.epochs)

    for epoch in range(args.epochs):
        model.train()
        running = 0.0
        optimizer.zero_grad()
        for step, (images, labels) in enumerate(loader):
            images, labels = images.to(device), labels.to(device)
            loss = model(pixel_values=images, labels=labels).loss / args.accumulate
            loss.backward()
            if (step + 1) % args.accumulate == 0:
                optimizer.step()
                optimizer.zero_grad()
            running += loss.item()
            torch.cuda.empty_cache()
        schedule.step()
        print(f"epoch {epoch}: loss {running / len(loader):.3f}")
        torch.save(model.module.state_dict(), "vit.pt")

    dist.destroy_process_group()


if __name__ == "__main__":
    main()
