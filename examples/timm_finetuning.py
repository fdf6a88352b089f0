"""Fine-tune a timm model with a SEM head and a robust loss, on labels that are 40 % wrong.

    python examples/timm_finetuning.py

Needs: pip install "edgemask[timm]" scikit-learn. Without a network: the model is tiny and starts
from random weights. For your photographs take a real one, such as
timm.create_model("resnet50", pretrained=True, num_classes=...), and its own transforms.
"""

import edgemask as em  # before timm: repairs a torchvision wheel that does not fit torch

# isort: split
import timm
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn


def main(epochs: int = 6) -> float:
    """Train, and return the accuracy on clean test images."""
    torch.manual_seed(0)
    images, labels = load_digits(return_X_y=True)
    images = torch.tensor(images / 8.0 - 1.0, dtype=torch.float32).view(-1, 1, 8, 8)
    images = nn.functional.interpolate(images, size=16, mode="bilinear")
    train, test = train_test_split(range(len(labels)), test_size=0.25, random_state=0)
    given = torch.tensor(em.noise.make("sym:0.4", labels[train], 10, seed=0).noisy)
    truth = torch.tensor(labels[test])

    model = timm.create_model("test_resnet", num_classes=10, in_chans=1)
    em.attach(model, "sem", policy="capped(0.3)")  # finds model.get_classifier() by itself
    print("classifier:", model.get_classifier())

    # The usual recipe: a small rate for the body, a larger one for the new classifier.
    head = {id(p) for p in model.get_classifier().parameters()}
    groups = [
        {"params": [p for p in model.parameters() if id(p) not in head], "lr": 2e-3},
        {"params": model.get_classifier().parameters(), "lr": 1e-2},
    ]
    optimiser = torch.optim.AdamW(groups, weight_decay=1e-4)
    criterion = em.losses.build("gce", q=0.7)  # `edgemask list losses` shows all of them
    x = images[train]
    batches = len(x) // 64
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, [2e-3, 1e-2], epochs * batches)

    for epoch in range(epochs):
        model.train()
        total = 0.0
        for batch in torch.randperm(len(x))[: batches * 64].view(batches, 64):
            optimiser.zero_grad()
            loss = criterion(model(x[batch]), given[batch])
            loss.backward()
            optimiser.step()
            schedule.step()
            total += loss.item()
        if epoch % 2 == 1:
            print(f"epoch {epoch + 1}: loss {total / batches:.3f}")

    model.eval()
    with torch.no_grad():
        accuracy = (model(images[test]).argmax(dim=1) == truth).float().mean().item()
    em.detach(model)  # a plain timm model again
    return accuracy


if __name__ == "__main__":
    print(f"{main():.1%} of the test images right, trained on labels of which 40 % are wrong")
