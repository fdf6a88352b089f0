"""A method of your own: drop the samples of a batch with the largest losses, after a warm-up.

    python examples/custom_method.py

Needs: pip install "edgemask[app]".
"""

import torch
from torch.nn import functional as F

import edgemask as em
from edgemask.methods import Method, StepResult
from edgemask.methods.options import Share, options
from edgemask.methods.parts import SampleTable


@options
class TrimmedTraining(Method):
    """Plain training that leaves out the samples of each batch with the largest losses.

    Networks fit right labels before wrong ones, so large losses are wrong labels more often.

    Args:
        drop: The share of a batch that is left out in the end.
        warmup: Share of the epochs over which it rises from 0.
    """

    uses_criterion = False  # cross-entropy below, whatever `loss=` says

    drop: Share = 0.4
    warmup: Share = 0.3

    def setup(self, task, nets):
        """Make room for one number per sample; it is stored in checkpoints, so runs resume."""
        super().setup(task, nets)
        self.kept = self.remember("kept", SampleTable(task.num_samples, device=task.device))

    def step(self, phase, batch, clock):
        """Return the loss of one optimiser step."""
        index, (x,), y = batch["train"]
        losses = F.cross_entropy(self.logits("net", x), y, reduction="none")
        progress = clock.epoch / max(1.0, self.warmup * self.task.epochs)
        keep = round(len(y) * (1 - self.drop * min(1.0, progress)))
        chosen = losses.detach().argsort()[:keep]
        # Remember what was chosen, as a moving average: it becomes the trust in each label.
        now = torch.zeros(len(y)).index_fill(0, chosen, 1.0)
        self.kept.write(index, 0.8 * self.kept.values[index] + 0.2 * now)
        return StepResult(losses[chosen].mean())

    def trust(self):
        """Return a score in [0, 1] per sample, higher where its label is more likely right."""
        return self.kept.values


def main(epochs: int = 8) -> tuple[float, float, float]:
    """Return the accuracy of plain and of trimmed training, and the method's choice of suspects."""
    options = {"noise": "sym:0.4", "epochs": epochs, "batch_size": 32}
    plain = em.fit("digits", loss="ce", **options)
    trimmed = em.fit("digits", method=TrimmedTraining(drop=0.4), **options)
    samples = trimmed.samples  # given, clean, predicted, trust ... of every training sample
    least = samples["trust"].argsort()[:100]
    wrong = (samples["given"] != samples["clean"])[least].mean()
    accuracies = [run.summary["test/accuracy"]["last"] for run in (plain, trimmed)]
    return accuracies[0], accuracies[1], float(wrong)


if __name__ == "__main__":
    plain, trimmed, wrong = main()
    print(f"plain training:   {plain:.1%} of the test digits right")
    print(f"trimmed training: {trimmed:.1%}")
    print(f"{wrong:.0%} of the 100 least trusted labels are wrong (40 % of all are)")
