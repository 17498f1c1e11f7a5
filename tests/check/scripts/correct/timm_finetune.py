import argparse
import logging
from contextlib import suppress
import timm
import torch
import torch.nn as nn
from timm.data import Mixup, create_transform, resolve_data_config
from timm.loss import LabelSmoothingCrossEntropy, SoftTargetCrossEntropy
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import AverageMeter, ModelEmaV2, NativeScaler, accuracy
from torchvision.datasets import ImageFolder

_logger = logging.getLogger("train")


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--data-dir", default="data")
    p.add_argument("--model", default="vit_small_patch16_224")
    p.add_argument("--batch-size", type=int, default=64)
    p.add_argument("--epochs", type=int, default=30)
    p.add_argument("--lr", type=float, default=5e-4)
    p.add_argument("--num-classes", type=int, default=200)
    p.add_argument("--mixup", type=float, default=0.8)
    p.add_argument("--amp", action=argparse.BooleanOptionalAction, default=True)
    return p.parse_args()


def main():
    args = get_args()
    device = torch.device("cuda:0")
    model = timm.create_model(args.model, pretrained=True, num_classes=args.num_classes, drop_path_rate=0.1).to(device)
    ema = ModelEmaV2(model, decay=0.9998)
    cfg = resolve_data_config({}, model=model)
    train_set = ImageFolder(f"{args.data_dir}/train", create_transform(**cfg, is_training=True, auto_augment="rand-m9-mstd0.5-inc1"))
    val_set = ImageFolder(f"{args.data_dir}/val", create_transform(**cfg))
    train_loader = torch.utils.data.DataLoader(train_set, args.batch_size, shuffle=True, num_workers=8, pin_memory=True, drop_last=True)
    val_loader = torch.utils.data.DataLoader(val_set, args.batch_size, num_workers=8, pin_memory=True)
    mixup = Mixup(mixup_alpha=args.mixup, cutmix_alpha=1.0, num_classes=args.num_classes) if args.mixup > 0 else None
    criterion = SoftTargetCrossEntropy() if mixup is not None else LabelSmoothingCrossEntropy(0.1)
    optimizer = create_optimizer_v2(model, opt="adamw", lr=args.lr, weight_decay=0.05)
    scheduler = CosineLRScheduler(optimizer, t_initial=args.epochs, lr_min=1e-6, warmup_t=5, warmup_lr_init=1e-6)
    scaler = NativeScaler() if args.amp else None
    amp = torch.autocast("cuda") if args.amp else suppress()
    for epoch in range(args.epochs):
        model.train()
        losses = AverageMeter()
        for x, y in train_loader:
            x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
            if mixup is not None:
                x, y = mixup(x, y)
            with amp:
                loss = criterion(model(x), y)
            optimizer.zero_grad()
            if scaler is not None:
                scaler(loss, optimizer, clip_grad=1.0, parameters=model.parameters())
            else:
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
            ema.update(model)
            losses.update(loss.item(), x.size(0))
        scheduler.step(epoch + 1)
        ema.module.eval()
        top = AverageMeter()
        with torch.inference_mode():
            for x, y in val_loader:
                out = ema.module(x.to(device))
                top.update(accuracy(out, y.to(device))[0].item(), x.size(0))
        _logger.info("%d %.4f %.2f", epoch, losses.avg, top.avg)
    torch.save(ema.module.state_dict(), "ema.pth")


if __name__ == "__main__":
    main()
