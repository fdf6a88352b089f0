"""Which epoch's weights become the final model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from edgemask.engine.config import Config
from edgemask.errors import UserError

if TYPE_CHECKING:
    from edgemask.engine.evaluation import Evaluation

__all__ = ["Selection", "check_selection"]


class Selection:
    """Keeps the weights of the epoch with the best validation accuracy, for each network.

    Of several networks each is chosen by its own accuracy, as DivideMix and UNICON do on
    Clothing1M; together they are the model. Of equally good epochs the first one is kept. All
    processes have the same predictions and weights, so each keeps a copy of its own. Part of the
    checkpoint.

    Args:
        by: ``validation`` or ``clean_validation``; ``last`` keeps nothing.
        nets: The networks, by name.
    """

    def __init__(self, by: str, nets: Mapping[str, nn.Module]):
        self.by = by
        self.nets = nets
        self.epochs: dict[str, int] = {}
        self.accuracies: dict[str, float] = {}
        self.weights: dict[str, dict[str, Tensor]] = {}

    @property
    def active(self) -> bool:
        """Whether an epoch is chosen at all."""
        return self.by != "last"

    def update(self, evaluation: Evaluation, epoch: int) -> None:
        """Keep the weights of each network whose validation accuracy is its best so far."""
        for name, predicted in evaluation.by_network.items():
            accuracy = float((predicted == evaluation.labels).mean())
            if accuracy > self.accuracies.get(name, -1.0):
                self.epochs[name] = epoch
                self.accuracies[name] = accuracy
                state = self.nets[name].state_dict()
                self.weights[name] = {
                    key: value.detach().cpu().clone() for key, value in state.items()
                }

    def load_best(self) -> None:
        """Load the kept weights into the networks."""
        for name, weights in self.weights.items():
            self.nets[name].load_state_dict(weights)

    def state_dict(self) -> dict[str, Any]:
        """Return the kept weights with their epochs and accuracies."""
        return {"epochs": self.epochs, "accuracies": self.accuracies, "weights": self.weights}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what :meth:`state_dict` returned."""
        self.epochs = dict(state["epochs"])
        self.accuracies = dict(state["accuracies"])
        self.weights = {name: dict(weights) for name, weights in state["weights"].items()}


def check_selection(config: Config) -> None:
    """Refuse a selection without validation samples, as far as the config alone can tell.

    Raises:
        UserError: Names the setting that is missing.
    """
    if config.train.select == "validation" and not config.data.validation:
        raise UserError(
            "wrong config: train.select: 'validation' chooses by held-out noisy samples, and "
            "data.validation is 0; set data.validation=0.1, or leave train.select at 'last'"
        )
    if config.train.rollback and config.train.select == "last":
        raise UserError(
            "wrong config: train.rollback: goes back to the weights that train.select chooses, "
            "and that is 'last'; set it to 'validation' or 'clean_validation'"
        )
