"""The limit that benchmarks of training are measured against: loops written by hand in plain torch.

Nothing of EdgeMask is used here. The network, the batched augmentation, the step and the test are
what a person writes who wants one thing, fast: images as one uint8 tensor in memory, crop, flip and
normalisation of a whole batch at once, ``channels_last``, one log_softmax per loss, no checks, no
files, no progress.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
PADDING, BATCH = 4, 128


def cnn8(width: float, classes: int = 10) -> nn.Sequential:
    """Return the 8-layer CNN for images of 32x32: six convolutions, a hidden layer, the head."""
    layers: list[nn.Module] = []
    before = 3
    for block in ((64, 64), (128, 128), (196, 196)):
        for count in block:
            channels = max(1, round(count * width))
            layers += [
                nn.Conv2d(before, channels, 3, padding=1),
                nn.BatchNorm2d(channels),
                nn.ReLU(),
            ]
            before = channels
        layers.append(nn.MaxPool2d(2))
    hidden = [nn.Flatten(), nn.Linear(16 * before, 256), nn.BatchNorm1d(256), nn.ReLU()]
    return nn.Sequential(*layers, *hidden, nn.Linear(256, classes))


def normalise(images: Tensor) -> Tensor:
    """Return uint8 images as normalised floats whose channels lie side by side."""
    mean = torch.tensor(MEAN).view(1, 3, 1, 1) * 255
    scale = 1 / (torch.tensor(STD).view(1, 3, 1, 1) * 255)
    floats = images.to(torch.float32, memory_format=torch.channels_last)
    return floats.sub_(mean).mul_(scale)


def crop_and_flip(images: Tensor) -> Tensor:
    """Pad by four pixels, cut a window per image, and mirror half of the images."""
    count, channels, height, width = images.shape
    padded = F.pad(images, (PADDING,) * 4)
    top, left = torch.randint(0, 2 * PADDING + 1, (2, count, 1))
    rows = top + torch.arange(height)
    columns = left + torch.arange(width)
    columns = torch.where(torch.rand(count, 1) < 0.5, columns.flip(1), columns)
    place = rows[:, :, None] * padded.shape[-1] + columns[:, None, :]
    place = place.view(count, 1, -1).expand(-1, channels, -1)
    return padded.flatten(2).gather(2, place).view_as(images)


class HandWritten:
    """Epochs of cross entropy with SGD, each with a test.

    Args:
        images: Training images, uint8 ``(N, 3, 32, 32)``.
        labels: Their labels.
        test_images: Test images.
        test_labels: Their labels.
        width: Factor on the number of channels.
    """

    def __init__(
        self, images: Tensor, labels: Tensor, test_images: Tensor, test_labels: Tensor, width: float
    ):
        self.train_set, self.test_set = (images, labels), (test_images, test_labels)
        self.net = cnn8(width).to(memory_format=torch.channels_last)
        self.optimiser = torch.optim.SGD(self.net.parameters(), lr=0.01, momentum=0.9)

    def epoch(self) -> tuple[float, float]:
        """Train for an epoch and test; return the mean loss and the accuracy."""
        return self.train(), self.test()

    def train(self) -> float:
        """Make the steps of an epoch."""
        images, labels = self.train_set
        self.net.train()
        total = torch.zeros(())
        for index in torch.randperm(len(images)).split(BATCH):
            x = normalise(crop_and_flip(images[index]))
            loss = F.cross_entropy(self.net(x), labels[index])
            self.optimiser.zero_grad(set_to_none=True)
            loss.backward()
            self.optimiser.step()
            total += loss.detach() * len(index)
        return total.item() / len(images)

    @torch.no_grad()
    def test(self) -> float:
        """Return the accuracy on the test images."""
        images, labels = self.test_set
        self.net.eval()
        right = torch.zeros((), dtype=torch.long)
        for batch, target in zip(images.split(BATCH), labels.split(BATCH), strict=True):
            right += (self.net(normalise(batch)).argmax(1) == target).sum()
        return right.item() / len(images)
