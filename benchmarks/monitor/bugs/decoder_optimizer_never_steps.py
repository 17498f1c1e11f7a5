"""An autoencoder with an optimizer for each half, of which only the encoder's is stepped: the decoder stays as it was made."""
# source: https://docs.pytorch.org/tutorials/intermediate/seq2seq_translation_tutorial.html
# first effect: step 0
# names: optimizer1, decoder.0.weight, decoder.2.weight
# family: optimizer
# detectable: yes an optimizer whose parameters get gradients in every iteration never steps, while another one does

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=140)
args = parser.parse_args()
torch.manual_seed(args.seed)

encoder = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
decoder = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 16))
encoder_optimizer = torch.optim.Adam(encoder.parameters(), lr=2e-3)
decoder_optimizer = torch.optim.Adam(decoder.parameters(), lr=2e-3)
mixing = torch.randn(4, 16)
for step in range(args.steps // 2 if args.fixed else args.steps):
    sample = torch.randn(64, 4) @ mixing + 0.05 * torch.randn(64, 16)
    encoder_optimizer.zero_grad()
    decoder_optimizer.zero_grad()
    loss = nn.functional.mse_loss(decoder(encoder(sample)), sample)
    loss.backward()
    encoder_optimizer.step()
    if args.fixed:
        decoder_optimizer.step()
    if step % 20 == 0:
        print(step, f"loss {loss.item():.4f}")
