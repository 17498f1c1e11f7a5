from dataclasses import dataclass, field
import hydra
import torch
from hydra.core.config_store import ConfigStore
from hydra.utils import instantiate
from omegaconf import MISSING, DictConfig, OmegaConf
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms


@dataclass
class OptimConfig:
    _target_: str = "torch.optim.AdamW"
    lr: float = 1e-3
    weight_decay: float = 1e-2


@dataclass
class Config:
    batch_size: int = 128
    epochs: int = 10
    hidden: int = 256
    device: str = "cuda"
    optim: OptimConfig = field(default_factory=OptimConfig)


ConfigStore.instance().store(name="config", node=Config)


@hydra.main(version_base=None, config_name="config")
def main(cfg: DictConfig) -> None:
    print(OmegaConf.to_yaml(cfg))
    tf = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.1307,), (0.3081,))])
    loader = DataLoader(datasets.MNIST("data", train=True, download=True, transform=tf), batch_size=cfg.batch_size, shuffle=True, num_workers=4, pin_memory=True)
    model = nn.Sequential(nn.Flatten(), nn.Linear(784, cfg.hidden), nn.ReLU(), nn.Linear(cfg.hidden, 10)).to(cfg.device)
    optimizer = instantiate(cfg.optim, params=model.parameters())
    for epoch in range(cfg.epochs):
        for x, y in loader:
            x, y = x.to(cfg.device, non_blocking=True), y.to(cfg.device, non_blocking=True)
            optimizer.zero_grad(set_to_none=True)
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
