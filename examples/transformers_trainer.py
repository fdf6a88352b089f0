"""transformers' Trainer with a SEM head and a robust loss, on texts whose labels are 30 % wrong.

    python examples/transformers_trainer.py

Needs: pip install "edgemask[app,hf]". Without a network: a tiny BERT with random weights and a
vocabulary of its own. With your texts, take AutoModelForSequenceClassification.from_pretrained(...)
and its tokenizer; the lines with `em.` stay as they are.
"""

import tempfile

import edgemask as em  # before transformers: repairs a torchvision wheel that does not fit torch

# isort: split
import numpy as np
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

TOPICS = ["goal match team coach season", "vote law minister party budget", "chip data code robot"]
COMMON = ["the", "a", "of", "and", "in", "on", "with", "for", "new", "old", "big", "first", "last"]


def make_texts(count: int, rng: np.random.Generator) -> tuple[list[list[str]], np.ndarray]:
    """Return short texts about three topics: three words of the topic among nine common ones."""
    labels = rng.integers(len(TOPICS), size=count)
    texts = [[*rng.choice(COMMON, 9), *rng.choice(TOPICS[label].split(), 3)] for label in labels]
    return texts, labels


def encode(texts: list[list[str]], labels: np.ndarray) -> list[dict[str, torch.Tensor]]:
    """Return the samples as the Trainer wants them; your tokenizer does this."""
    vocabulary = {word: n for n, word in enumerate(["[CLS]", *COMMON, *" ".join(TOPICS).split()])}
    return [
        {
            "input_ids": torch.tensor([0, *(vocabulary[word] for word in words)]),
            "labels": torch.tensor(int(label)),
        }
        for words, label in zip(texts, labels, strict=True)
    ]


def main(epochs: int = 6) -> float:
    """Train, and return the accuracy on clean test texts."""
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    texts, truth = make_texts(1200, rng)
    given = em.noise.make("sym:0.3", truth, len(TOPICS), seed=0).noisy
    test = encode(*make_texts(400, rng))

    config = BertConfig(
        vocab_size=64, hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=64, max_position_embeddings=32, num_labels=len(TOPICS),
    )  # fmt: skip
    model = BertForSequenceClassification(config)
    em.attach(model, "sem", policy="capped(0.3)")  # model.classifier, found by itself

    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder, num_train_epochs=epochs, per_device_train_batch_size=8,
            gradient_accumulation_steps=2, learning_rate=2e-3, report_to="none", use_cpu=True,
            save_strategy="no", logging_strategy="no", disable_tqdm=True, seed=0,
        )  # fmt: skip
        trainer = Trainer(
            model, arguments, train_dataset=encode(texts, given), eval_dataset=test,
            compute_loss_func=em.integrations.trainer_loss(em.losses.GCELoss(q=0.7)),
            # One mask per optimiser step, although two micro-batches make one step here:
            callbacks=[em.integrations.transformers.HeadStepCallback()],
            compute_metrics=lambda p: {"accuracy": (p.predictions.argmax(1) == p.label_ids).mean()},
        )  # fmt: skip
        trainer.train()
        return float(trainer.evaluate()["eval_accuracy"])


if __name__ == "__main__":
    print(f"{main():.1%} of the test texts right, trained on labels of which 30 % are wrong")
