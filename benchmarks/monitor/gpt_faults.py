"""Seven faults that can be put into the training of the benchmark model: python gpt_faults.py --fault NAME.

One line for each, to be read by a machine; without --fault the program is correct.
"""
# fault: missing_zero_grad; first effect: step 1; names: zero_grad; family: gradients
# fault: stale_optimizer; first effect: step 0; names: tok.weight, blocks.0.attn.qkv.weight, head.weight; family: optimizer
# fault: clipping_dropped; first effect: step 0; names: clip_grad_norm_; family: clipping
# fault: step_skipped_from_10; first effect: step 10; names: step; family: optimizer
# fault: eval_left_on; first effect: step 10; names: blocks.0.attn.drop, blocks.0.mlp.3; family: mode
# fault: weights_corrupted_by_another_hand; first effect: step 12; names: blocks.2.mlp.0.weight; family: other
# fault: gradient_cut_below_block; first effect: step 0; names: tok.weight, pos.weight, blocks.0.attn.qkv.weight, blocks.1.attn.qkv.weight; family: gradients

import argparse
import copy
import re
from pathlib import Path

import torch
from gpt import GPT, estimate, get_batch, make_text

FAULTS = re.findall(r"^# fault: (\w+);", Path(__file__).read_text(encoding="utf-8"), re.MULTILINE)

parser = argparse.ArgumentParser()
parser.add_argument("--fault", choices=["none", *FAULTS], default="none")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=30)
parser.add_argument("--device", default="cpu")
args = parser.parse_args()
fault = args.fault

torch.manual_seed(args.seed)
train, held, vocabulary = make_text(args.seed)
train, held = train.to(args.device), held.to(args.device)
model = GPT(vocabulary).to(args.device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
if fault == "stale_optimizer":
    model = copy.deepcopy(model)
if fault == "gradient_cut_below_block":
    model.blocks[2].register_forward_pre_hook(lambda block, inputs: (inputs[0].detach(),))

for step in range(args.steps):
    x, y = get_batch(train)
    _, loss = model(x, y)
    if fault != "missing_zero_grad":
        optimizer.zero_grad(set_to_none=True)
    loss.backward()
    if fault != "clipping_dropped":
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    if fault != "step_skipped_from_10" or step < 10:
        optimizer.step()
    if fault == "weights_corrupted_by_another_hand" and step == 12:
        with torch.no_grad():
            model.blocks[2].mlp[0].weight[200:203] *= 1.01
    if step % 10 == 9:
        print(f"step {step + 1}: loss {loss.item():.4f}, held out {estimate(model, held):.4f}")
        if fault == "eval_left_on":
            model.eval()
