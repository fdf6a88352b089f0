"""How fast weak views of CIFAR-10 are made, beside what uses them and what else could make them.

Prints images per second, measured in turns in one run on one thread, and two ratios:

- against training the 8-layer CNN (forward, backward, SGD step), which the views must never slow;
- against the usual way, a transform per image in a ``DataLoader`` with one worker.

Images are random: what they show does not matter for speed.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from edgemask.data import Loader, TensorSplit, from_arrays
from edgemask.models import create

COUNT, BATCH = 10_000, 128
ROUNDS = 3


class PerSample(Dataset[tuple[torch.Tensor, int]]):
    """The same view the usual way: pad, crop and flip one image at a time."""

    def __init__(
        self, images: torch.Tensor, labels: np.ndarray, mean: torch.Tensor, std: torch.Tensor
    ):
        self.images, self.labels, self.mean, self.std = images, labels, mean, std

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, position: int) -> tuple[torch.Tensor, int]:
        image = nn.functional.pad(self.images[position], (4, 4, 4, 4))
        top, left = torch.randint(0, 9, (2,)).tolist()
        image = image[:, top : top + 32, left : left + 32]
        if torch.rand(()) < 0.5:
            image = image.flip(-1)
        return (image.float() / 255 - self.mean) / self.std, int(self.labels[position])


def rate(run: Callable[[], int]) -> float:
    start = time.perf_counter()
    return run() / (time.perf_counter() - start)


def main() -> None:
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (COUNT, 3, 32, 32), dtype=np.uint8)
    labels = rng.integers(0, 10, COUNT)
    bundle = from_arrays(
        images, labels, x_test=images[:10], y_test=labels[:10], recipe="cifar10", name="cifar10"
    )
    assert isinstance(bundle.train, TensorSplit)
    loader = Loader(bundle.train, bundle=bundle, views=("weak",), batch_size=BATCH)
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in bundle.normalisation)
    dataset = PerSample(bundle.train.data, labels, mean, std)
    usual = DataLoader(dataset, batch_size=BATCH, shuffle=True, num_workers=1)

    model = create("cnn8", 10)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    batch = next(iter(loader))

    def views() -> int:
        return sum(len(item.index) for item in loader)

    def per_sample() -> int:
        return sum(len(targets) for _, targets in usual)

    def train() -> int:
        for _ in range(6):
            optimiser.zero_grad()
            nn.functional.cross_entropy(model(batch.views[0]), batch.target).backward()
            optimiser.step()
        return 6 * BATCH

    jobs = {"weak views": views, "per-sample DataLoader": per_sample, "training cnn8": train}
    for job in jobs.values():
        job()
    rates = [{name: rate(job) for name, job in jobs.items()} for _ in range(ROUNDS)]
    middle = {name: float(np.median([turn[name] for turn in rates])) for name in jobs}

    print(f"torch {torch.__version__}, Python {platform.python_version()}, 1 thread")
    print(f"CIFAR-10 shape (3, 32, 32), {COUNT} images, batch {BATCH}, median of {ROUNDS}")
    for name, value in middle.items():
        print(f"  {name:24s}{value:12,.0f} images/s")
    ours = middle["weak views"]
    print(
        f"  weak views : training cnn8          {ours / middle['training cnn8']:6.1f} x  (aim 20)"
    )
    other = middle["per-sample DataLoader"]
    print(f"  weak views : per-sample DataLoader  {ours / other:6.1f} x  (aim 3)")


if __name__ == "__main__":
    main()
