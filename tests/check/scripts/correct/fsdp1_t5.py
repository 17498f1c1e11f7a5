import argparse
import functools
import os
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp import BackwardPrefetch, FullStateDictConfig, MixedPrecision, ShardingStrategy, StateDictType
from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy
from torch.utils.data import DataLoader, DistributedSampler
from transformers import AutoTokenizer, T5ForConditionalGeneration
from transformers.models.t5.modeling_t5 import T5Block
from datasets import load_dataset


class WikiHow(torch.utils.data.Dataset):
    def __init__(self, tokenizer, split, input_length=512, output_length=150):
        self.data = load_dataset("wikihow", "all", data_dir="data/", split=split)
        self.tok, self.i, self.o = tokenizer, input_length, output_length

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        row = self.data[index]
        src = self.tok(row["text"], max_length=self.i, padding="max_length", truncation=True, return_tensors="pt")
        trg = self.tok(row["headline"], max_length=self.o, padding="max_length", truncation=True, return_tensors="pt")
        labels = trg["input_ids"].squeeze(0)
        labels[labels == self.tok.pad_token_id] = -100
        return {"source_ids": src["input_ids"].squeeze(0), "source_mask": src["attention_mask"].squeeze(0), "labels": labels}


def train(args, model, rank, loader, optimizer, epoch, sampler):
    model.train()
    local_rank = int(os.environ["LOCAL_RANK"])
    total = torch.zeros(2).to(local_rank)
    sampler.set_epoch(epoch)
    for batch in loader:
        batch = {k: v.to(local_rank) for k, v in batch.items()}
        optimizer.zero_grad()
        loss = model(input_ids=batch["source_ids"], attention_mask=batch["source_mask"], labels=batch["labels"]).loss
        loss.backward()
        optimizer.step()
        total[0] += loss.detach()
        total[1] += 1
    dist.all_reduce(total, op=dist.ReduceOp.SUM)
    if rank == 0:
        print(epoch, (total[0] / total[1]).item())


def main(args):
    local_rank, rank, world = int(os.environ["LOCAL_RANK"]), int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("nccl")
    torch.cuda.set_device(local_rank)
    tokenizer = AutoTokenizer.from_pretrained("t5-base")
    model = T5ForConditionalGeneration.from_pretrained("t5-base")
    data = WikiHow(tokenizer, "train")
    sampler = DistributedSampler(data, rank=rank, num_replicas=world, shuffle=True)
    loader = DataLoader(data, batch_size=args.batch_size, sampler=sampler, num_workers=2, pin_memory=True)
    policy = functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={T5Block})
    bf16 = MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16, buffer_dtype=torch.bfloat16)
    model = FSDP(model, auto_wrap_policy=policy, mixed_precision=bf16, sharding_strategy=ShardingStrategy.FULL_SHARD, device_id=torch.cuda.current_device(), backward_prefetch=BackwardPrefetch.BACKWARD_PRE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=args.gamma)
    for epoch in range(1, args.epochs + 1):
        train(args, model, rank, loader, optimizer, epoch, sampler)
        scheduler.step()
        with FSDP.state_dict_type(model, StateDictType.FULL_STATE_DICT, FullStateDictConfig(offload_to_cpu=True, rank0_only=True)):
            state = model.state_dict()
        if rank == 0:
            torch.save(state, f"t5-{epoch}.pt")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--lr", type=float, default=2e-4)
    parser.add_argument("--gamma", type=float, default=0.7)
    main(parser.parse_args())
