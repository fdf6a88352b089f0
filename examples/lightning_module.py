"""Lightning with a SEM head and a record of which labels look wrong; 40 % of them are.

    python examples/lightning_module.py

Needs: pip install "edgemask[lightning]" scikit-learn.
"""

import logging
import warnings

import edgemask as em  # before lightning: repairs a torchvision wheel that does not fit torch

# isort: split
import lightning.pytorch as pl
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class NoisyLabelModule(pl.LightningModule):
    """A small network that also remembers how it fared on each training sample."""

    def __init__(self, num_samples: int):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
        em.attach(self.net, "sem", policy="capped(0.3)")
        # Loss, margin, forgetting and agreement of each sample over the epochs.
        self.dynamics = em.audit.TrainingDynamics(num_samples=num_samples, num_classes=10)

    def training_step(self, batch, batch_idx):
        """Train on the given labels; a batch carries the position of each sample."""
        index, x, y = batch
        logits = self.net(x)
        self.dynamics.update(index, logits.detach(), y)
        return nn.functional.cross_entropy(logits, y)

    def validation_step(self, batch, batch_idx):
        """Log the accuracy on clean labels."""
        x, y = batch
        self.log("accuracy", (self.net(x).argmax(dim=1) == y).float().mean())

    def configure_optimizers(self):
        """Adam; it may be built before or after `attach`, the parameters are the same."""
        return torch.optim.Adam(self.parameters(), lr=3e-3)


def main(epochs: int = 12) -> tuple[float, float]:
    """Return the accuracy on clean labels, and how many of the first 100 suspects are wrong."""
    pl.seed_everything(0, verbose=False)
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module="lightning")  # tips about workers
    x, y = load_digits(return_X_y=True)
    x = torch.tensor(x / 16.0, dtype=torch.float32)
    labels = em.noise.make("sym:0.4", y[:1400], 10, seed=0)
    train = TensorDataset(torch.arange(1400), x[:1400], torch.tensor(labels.noisy))
    test = TensorDataset(x[1400:], torch.tensor(y[1400:]))

    module = NoisyLabelModule(num_samples=1400)
    trainer = pl.Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        accumulate_grad_batches=2,
        # One mask per optimiser step, although two batches make one step here:
        callbacks=[em.integrations.lightning.HeadStepCallback()],
        logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(module, DataLoader(train, 32, shuffle=True), DataLoader(test, 400))
    suspects = module.dynamics.suspects().head(100)["id"].astype(int)
    return float(trainer.callback_metrics["accuracy"]), float(labels.wrong[suspects].mean())


if __name__ == "__main__":
    accuracy, found = main()
    print(f"{accuracy:.1%} of the test digits right")
    print(f"{found:.0%} of the 100 most doubtful labels are wrong (40 % of all are)")
