"""The training that `overhead.py` measures: an iteration whenever it is asked for one, and what that cost.

It is a plain training program, so that other tools can watch it too; what it is told comes through two named pipes.
"""

import json
import os
import sys
import time

import gpt
import torch


def answered(file, **told):
    print(json.dumps(told), file=file, flush=True)


def keep_waiting_from_recorder(waited):
    """Have the recorder, where there is one, not take for training what is waited for a turn.

    Its cost controller would reckon with steps that are several times as long as they are, and allow itself as much more;
    and the memory would be read as many times more often.
    """
    for name in ("budget", "memory"):
        module = sys.modules.get(f"_preflight_recorder.{name}")
        if module is not None:
            module.clock = lambda clock=module.clock: clock() - waited[0]


def main():
    torch.set_num_threads(1)
    waited = [0.0]
    keep_waiting_from_recorder(waited)
    torch.manual_seed(0)
    device = os.environ.get("TURNS_DEVICE", "cpu")
    for name, value in json.loads(os.environ.get("TURNS_SIZES", "{}")).items():
        setattr(gpt, name, value)
    data, _, vocabulary = gpt.make_text(0)
    data = data.to(device)
    model = gpt.GPT(vocabulary).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    with open(os.environ["TURNS_OUT"], "w") as answers, open(os.environ["TURNS_IN"]) as asked:
        loss, answered_at = None, time.perf_counter()
        for _ in asked:
            waited[0] += time.perf_counter() - answered_at
            main_before, wall_before = time.thread_time(), time.perf_counter()
            x, y = gpt.get_batch(data)
            optimizer.zero_grad(set_to_none=True)
            _, loss = model(x, y)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            if device != "cpu":
                torch.cuda.synchronize()
            main_after, wall_after = time.thread_time(), time.perf_counter()
            # The writer's thread also works between two turns: of the process the time since its start is told.
            answered(answers, main=main_after - main_before, wall=wall_after - wall_before, process=time.process_time())
            answered_at = time.perf_counter()
        answered(answers, loss=loss.item().hex())


if __name__ == "__main__":
    main()
