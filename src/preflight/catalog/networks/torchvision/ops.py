"""Layers that torchvision's networks share. Source: Huang et al. 2016 (stochastic depth); Hu et al. 2017 (squeeze and excitation)."""

from torch import nn


class StochasticDepth(nn.Module):
    def __init__(self, p, mode):
        super().__init__()
        self.p = p
        self.mode = mode

    def forward(self, x):
        if self.p == 0.0:
            return x
        kept = x.new_empty((x.shape[0], 1, 1, 1)).bernoulli_(1 - self.p)
        return x * kept


class SqueezeExcitation(nn.Module):
    def __init__(self, input_channels, squeeze_channels, activation=nn.ReLU, scale_activation=nn.Sigmoid):
        super().__init__()
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc1 = nn.Conv2d(input_channels, squeeze_channels, 1)
        self.fc2 = nn.Conv2d(squeeze_channels, input_channels, 1)
        self.activation = activation()
        self.scale_activation = scale_activation()

    def forward(self, x):
        return self.scale_activation(self.fc2(self.activation(self.fc1(self.avgpool(x))))) * x
