import torch
from torch import nn
from torch.optim.swa_utils import SWALR, AveragedModel, get_ema_multi_avg_fn, update_bn
from torch.utils.data import DataLoader
import torchvision.transforms as T
from torchvision.datasets import CIFAR100
from torchvision.models import wide_resnet50_2


def main(epochs=100, swa_start=75, batch_size=128):
    torch.backends.cudnn.benchmark = True
    tf = T.Compose([T.RandomCrop(32, padding=4), T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize((0.507, 0.487, 0.441), (0.267, 0.256, 0.276))])
    test_tf = T.Compose([T.ToTensor(), T.Normalize((0.507, 0.487, 0.441), (0.267, 0.256, 0.276))])
    loader = DataLoader(CIFAR100("data", True, tf, download=True), batch_size, shuffle=True, num_workers=4, pin_memory=True)
    test = DataLoader(CIFAR100("data", False, test_tf, download=True), 256, num_workers=4, pin_memory=True)
    model = wide_resnet50_2(num_classes=100).cuda()
    swa = AveragedModel(model)
    ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.999))
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=5e-4)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=epochs)
    swa_sched = SWALR(opt, anneal_strategy="linear", anneal_epochs=5, swa_lr=0.05)
    crit = nn.CrossEntropyLoss(label_smoothing=0.1)
    for epoch in range(epochs):
        model.train()
        for x, y in loader:
            x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
            opt.zero_grad()
            crit(model(x), y).backward()
            opt.step()
            ema.update_parameters(model)
        if epoch > swa_start:
            swa.update_parameters(model)
            swa_sched.step()
        else:
            cosine.step()
    update_bn(loader, swa, device="cuda")
    swa.eval()
    hits = 0
    with torch.inference_mode():
        for x, y in test:
            hits += (swa(x.cuda(non_blocking=True)).argmax(1) == y.cuda(non_blocking=True)).sum()
    print(hits.item() / len(test.dataset))


if __name__ == "__main__":
    main()
