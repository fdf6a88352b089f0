"""Two processes with DistributedDataParallel and a SEM head: every process draws the same mask.

    torchrun --nproc-per-node 2 examples/torchrun_ddp.py

Needs: edgemask, scikit-learn (for the digits). It runs on CPUs (gloo); on GPUs take the backend
"nccl" and move model and batches to your device. CUDA was not tried by the authors.
"""

import gc
import hashlib

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import edgemask as em


def main(epochs: int = 15) -> None:
    """Train on a part of the data in each process; rank 0 prints what came out."""
    dist.init_process_group("gloo")  # before `attach`: rank 0 hands its seed to the others
    rank = dist.get_rank()
    torch.manual_seed(0)

    x, y = load_digits(return_X_y=True)
    x = torch.tensor(x / 16.0, dtype=torch.float32)
    given = em.noise.make("sym:0.4", y[:1400], 10, seed=0).noisy
    train = TensorDataset(x[:1400], torch.tensor(given))
    sampler = DistributedSampler(train, shuffle=True, seed=0)
    loader = DataLoader(train, batch_size=32, sampler=sampler)

    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
    em.attach(model, "sem", policy="capped(0.3)")
    head = model[-1]
    ddp = DistributedDataParallel(model)
    optimiser = torch.optim.SGD(ddp.parameters(), lr=0.1, momentum=0.9)

    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for inputs, labels in loader:
            optimiser.zero_grad()
            # The head joins its statistics over the processes (one all-reduce of 65 numbers per
            # step), so two processes train as one does on the joined batch.
            nn.functional.cross_entropy(ddp(inputs), labels).backward()
            optimiser.step()

    digest = hashlib.sha256(head.last_mask.numpy().tobytes()).hexdigest()[:12]
    digests = [""] * dist.get_world_size()
    dist.all_gather_object(digests, digest)
    model.eval()
    with torch.no_grad():
        accuracy = (model(x[1400:]).argmax(dim=1) == torch.tensor(y[1400:])).float().mean().item()
    if rank == 0:
        same = "the same" if len(set(digests)) == 1 else "DIFFERENT"
        print(f"{len(digests)} processes, last masks: {' '.join(digests)} ({same})")
        print(f"{accuracy:.1%} of the test digits right")

    # In this order, gloo's threads end before Python does.
    dist.barrier()
    del ddp, optimiser
    gc.collect()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
