"""Heads and losses in runs of transformers' Trainer, with tiny random models."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import edgemask as em
from edgemask.errors import EdgeMaskWarning, UserError

transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")

TINY = {
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "vocab_size": 50,
    "max_position_embeddings": 20,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}


def bert(labels: int = 3) -> Any:
    torch.manual_seed(0)
    config = transformers.BertConfig(**TINY, num_labels=labels)
    return transformers.BertForSequenceClassification(config)


def texts(count: int) -> list[dict[str, Tensor]]:
    g = torch.Generator().manual_seed(1)
    return [
        {
            "input_ids": torch.randint(2, 50, (6,), generator=g),
            "labels": torch.randint(3, (), generator=g),
        }
        for _ in range(count)
    ]


def train(folder: Path, model: nn.Module, data: Any, **options: Any) -> Any:
    settings = {
        "per_device_train_batch_size": 4,
        "num_train_epochs": 1,
        "learning_rate": 0.1,
        "lr_scheduler_type": "constant",
        "optim": "sgd",
        "max_grad_norm": 0.0,
    }
    names = set(transformers.TrainingArguments.__dataclass_fields__)
    settings |= {name: options.pop(name) for name in list(options) if name in names}
    args = transformers.TrainingArguments(
        str(folder),
        report_to="none",
        use_cpu=True,
        save_strategy="no",
        disable_tqdm=True,
        **settings,
    )
    trainer = transformers.Trainer(model, args, train_dataset=data, **options)
    trainer.train()
    return trainer


def test_one_head_step_per_optimiser_step(tmp_path: Path) -> None:
    model = em.attach(bert(), "sem")
    callback = em.integrations.transformers.HeadStepCallback()
    trainer = train(tmp_path, model, texts(16), gradient_accumulation_steps=2, callbacks=[callback])
    assert trainer.state.global_step == 2
    assert int(model.classifier.steps) == 2
    model.train()(input_ids=torch.randint(2, 50, (4, 6)))
    assert int(model.classifier.steps) == 3, "after the run, each pass is a step again"


def test_an_uneven_last_step_and_evaluation_within_the_run(tmp_path: Path) -> None:
    model = em.attach(bert(), "sem")
    trainer = train(
        tmp_path,
        model,
        texts(20),
        gradient_accumulation_steps=2,
        eval_strategy="steps",
        eval_steps=1,
        eval_dataset=texts(4),
        callbacks=[em.integrations.transformers.HeadStepCallback],
    )
    assert trainer.state.global_step == 3
    assert int(model.classifier.steps) == 3


def test_a_run_that_broke_off_leaves_no_open_step(tmp_path: Path) -> None:
    model = em.attach(bert(), "sem")
    callback = em.integrations.transformers.HeadStepCallback()

    class Stop(transformers.TrainerCallback):
        stops = True

        def on_substep_end(self, *args: Any, **kwargs: Any) -> None:
            if self.stops:
                raise KeyboardInterrupt

    stop = Stop()
    options = {"gradient_accumulation_steps": 2, "callbacks": [callback, stop]}
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, model, texts(16), **options)
    stop.stops = False
    train(tmp_path, model, texts(16), **options)
    assert int(model.classifier.steps) == 1 + 2
    assert model.classifier.step_state.blocks == 0


@pytest.mark.parametrize("loss", [em.losses.CELoss(), em.losses.GCELoss(q=0.7)], ids=["ce", "gce"])
def test_accumulated_losses_are_the_mean_over_all_samples(tmp_path: Path, loss: Any) -> None:
    """Micro-batches of 4, 4 and 3 samples against one step on the whole batch, by hand."""
    data = texts(11)
    model = bert()
    trainer = train(
        tmp_path,
        model,
        data,
        gradient_accumulation_steps=3,
        compute_loss_func=em.integrations.trainer_loss(loss),
    )
    assert trainer.state.global_step == 1
    plain = bert().train()
    ids = torch.stack([entry["input_ids"] for entry in data])
    labels = torch.stack([entry["labels"] for entry in data])
    mean = loss(plain(input_ids=ids).logits, labels)
    mean.backward()
    with torch.no_grad():
        for parameter in plain.parameters():
            if parameter.grad is not None:
                parameter -= 0.1 * parameter.grad
    for (name, ours), theirs in zip(model.named_parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=1e-5, msg=name)
    assert trainer.state.log_history[-1]["train_loss"] == pytest.approx(mean.item(), rel=1e-5)


def test_every_loss_that_needs_no_index_works_in_the_trainer(tmp_path: Path) -> None:
    data = texts(4)
    batch = {key: torch.stack([entry[key] for entry in data]) for key in data[0]}
    first = em.integrations.trainer_loss(em.losses.CELoss())
    trainer = train(tmp_path, bert(), data, compute_loss_func=first)
    tried = 0
    for name in em.losses.LOSSES:
        loss = em.losses.build(name, num_classes=3, num_samples=4)
        if getattr(loss, "needs_index", False):
            with pytest.raises(UserError, match="needs its index"):
                em.integrations.trainer_loss(loss)
            continue
        trainer.compute_loss_func = em.integrations.trainer_loss(loss)
        trainer.model.zero_grad()
        found = trainer.training_step(trainer.model, dict(batch), torch.tensor(4))
        with torch.no_grad():
            logits = trainer.model(input_ids=batch["input_ids"]).logits
        expected = float(loss(logits, batch["labels"]))
        assert float(found) == pytest.approx(expected, rel=1e-5, abs=1e-7), name
        assert trainer.model.classifier.weight.grad.isfinite().all(), name
        tried += 1
    assert tried > 20


def test_evaluation_reports_the_mean(tmp_path: Path) -> None:
    loss = em.losses.GCELoss(q=0.5)
    trainer = train(
        tmp_path,
        bert(),
        texts(4),
        compute_loss_func=em.integrations.trainer_loss(loss),
        per_device_eval_batch_size=8,
    )
    data = texts(8)
    with torch.no_grad():
        logits = trainer.model.eval()(
            input_ids=torch.stack([entry["input_ids"] for entry in data])
        ).logits
    expected = float(loss(logits, torch.stack([entry["labels"] for entry in data])))
    assert trainer.evaluate(data)["eval_loss"] == pytest.approx(expected, rel=1e-5)


def test_outputs_of_every_form() -> None:
    logits, labels = torch.randn(5, 3), torch.tensor([0, 1, 2, -100, 1])
    compute = em.integrations.trainer_loss(em.losses.CELoss())
    mean = F.cross_entropy(logits, labels)
    for outputs in (logits, (logits,), {"logits": logits}):
        torch.testing.assert_close(compute(outputs, labels), mean)
        torch.testing.assert_close(compute(outputs, labels, num_items_in_batch=8), mean * 4 / 8)
        items = torch.tensor(4)
        torch.testing.assert_close(compute(outputs, labels, num_items_in_batch=items), mean)
    tokens, tags = torch.randn(2, 4, 3), torch.randint(3, (2, 4))
    tags[0, 2:] = -100
    torch.testing.assert_close(
        compute({"logits": tokens}, tags, num_items_in_batch=6),
        F.cross_entropy(tokens.reshape(-1, 3), tags.reshape(-1)),
    )
    soft = torch.softmax(torch.randn(5, 3), dim=1)
    torch.testing.assert_close(
        compute(logits, soft, num_items_in_batch=15), F.cross_entropy(logits, soft)
    )


def test_what_a_trainer_cannot_do_is_refused() -> None:
    with pytest.raises(UserError, match="ELRLoss remembers every sample"):
        em.integrations.trainer_loss(em.losses.ELRLoss(10, 3))
    with pytest.raises(UserError, match="reduction='mean', got 'none'"):
        em.integrations.trainer_loss(em.losses.CELoss(reduction="none"))
    with pytest.warns(EdgeMaskWarning, match="L1 penalty"):
        em.integrations.trainer_loss(em.losses.preset("jal", "cifar10"))
    compute = em.integrations.trainer_loss(em.losses.CELoss())
    with pytest.raises(UserError, match="no entry 'labels'"):
        compute(torch.randn(2, 3), None)
    with pytest.raises(UserError, match="hold no logits"):
        compute({"pooled": torch.randn(2, 3)}, torch.tensor([0, 1]))
    outputs = transformers.modeling_outputs.CausalLMOutput(logits=torch.randn(2, 4, 3))
    with pytest.raises(UserError, match="for classifiers"):
        compute(outputs, torch.zeros(2, 4).long())


def test_a_plain_checkpoint_in_a_folder(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    model = em.attach(bert(), "sem").train()
    ids = torch.randint(2, 50, (4, 6))
    model(input_ids=ids)
    model.save_pretrained(tmp_path, state_dict=em.plain_state_dict(model))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded, report = transformers.BertForSequenceClassification.from_pretrained(
            tmp_path, output_loading_info=True
        )
    assert not report["unexpected_keys"]
    assert not report["missing_keys"]
    assert type(loaded.classifier) is nn.Linear
    assert torch.equal(loaded(input_ids=ids).logits, model.eval()(input_ids=ids).logits)
