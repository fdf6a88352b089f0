"""Your own PyTorch loop, with and without a SEM head, on labels of which 40 % are wrong.

    python examples/plain_pytorch.py

Needs: edgemask, scikit-learn (for the digits).
"""

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import edgemask as em


def make_data(noise_rate: float, seed: int = 0) -> tuple[DataLoader, TensorDataset]:
    """Return a loader of noisy training samples and the clean test samples."""
    x, y = load_digits(return_X_y=True)
    x_train, x_test, y_train, y_test = train_test_split(
        x / 16.0, y, test_size=0.25, random_state=seed, stratify=y
    )
    # Wrong labels on purpose, so that we can see what they do. With your own data, skip this line.
    given = em.noise.make(f"sym:{noise_rate}", y_train, 10, seed=seed).noisy
    train = TensorDataset(torch.tensor(x_train, dtype=torch.float32), torch.tensor(given))
    test = TensorDataset(torch.tensor(x_test, dtype=torch.float32), torch.tensor(y_test))
    return DataLoader(train, batch_size=64, shuffle=True), test


def accuracy(model: nn.Module, data: TensorDataset) -> float:
    """Return the share of samples that the model gets right."""
    x, y = data.tensors
    model.eval()
    with torch.no_grad():
        return (model(x).argmax(dim=1) == y).float().mean().item()


def train(*, masked: bool, epochs: int = 30, noise_rate: float = 0.4) -> float:
    """Train one network and return its accuracy on clean test samples."""
    torch.manual_seed(0)
    loader, test = make_data(noise_rate)
    model = nn.Sequential(
        nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
    )
    if masked:
        # The last layer, with the same weights, now masks edges while it trains. capped(0.3) keeps
        # no edge with a probability above 0.3; plain "sem" is the layer of the paper.
        em.attach(model, "sem", policy="capped(0.3)")
    optimiser = torch.optim.Adam(model.parameters(), lr=2e-3)
    criterion = nn.CrossEntropyLoss()  # or a robust one: em.losses.preset("gce", "cifar10")

    for _ in range(epochs):
        model.train()
        for x, y in loader:
            optimiser.zero_grad()
            criterion(model(x), y).backward()
            optimiser.step()

    em.detach(model)  # plain nn.Linear again, to save and deploy as ever
    return accuracy(model, test)


if __name__ == "__main__":
    # A network this large has room for the wrong labels, too, and learns them in the end.
    print(f"plain head: {train(masked=False):.1%} of the test digits right")
    print(f"SEM head:   {train(masked=True):.1%}")
