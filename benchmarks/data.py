"""How fast weak views of CIFAR-10 are made, beside what uses them and what else could make them.

    python benchmarks/data.py [--seconds S] [--threads T]

Prints how many views are made in the time that one image takes otherwise:

- against training the 8-layer CNN (forward, backward, SGD step), which the views must never slow;
- against the usual way, a transform per image in a ``DataLoader`` with one worker.

Images are random: what they show does not matter for speed.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from _measure import announce, arguments, ratios, verdict
from edgemask.data import Loader, TensorSplit, from_arrays
from edgemask.models import create

COUNT, BATCH, STEPS = 10_000, 128, 6


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


def main() -> None:
    options = arguments(__doc__.splitlines()[0]).parse_args()
    announce(f"Weak views of {COUNT} images of 3x32x32, batch {BATCH}", options.threads)
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

    def views() -> None:
        for _ in loader:
            pass

    def per_sample() -> None:
        for _ in usual:
            pass

    def train() -> None:
        for _ in range(STEPS):
            optimiser.zero_grad()
            nn.functional.cross_entropy(model(batch.views[0]), batch.target).backward()
            optimiser.step()

    jobs = {"views": views, "per sample": per_sample, "training": train}
    times = ratios(jobs, to="views", seconds=options.seconds)
    trained = times["training"] * COUNT / (STEPS * BATCH)
    verdict("views in the time of training cnn8 on an image", trained, 20, at_least=True)
    usually = times["per sample"]
    verdict("views in the time of one in a per-sample DataLoader", usually, 3, at_least=True)


if __name__ == "__main__":
    main()
