"""Initialisation rules of the code bases that the models come from."""

from __future__ import annotations

from torch import nn

__all__ = ["he_normal", "kaiming_and_xavier"]


def kaiming_and_xavier(model: nn.Module) -> None:
    """Draw convolutions Kaiming-uniform (fan-in, ReLU) and linear weights Xavier-uniform.

    Biases keep torch's default. This is the rule of the APL, ALF, ANL and JAL code.
    """
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_uniform_(module.weight, mode="fan_in", nonlinearity="relu")
        elif isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)


def he_normal(model: nn.Module) -> None:
    """Draw linear weights Kaiming-normal (fan-in) and set their biases to zero.

    This is the rule for the MLP heads and projectors of the Jo-SRC, Jo-SNC and CA2C code.
    """
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.kaiming_normal_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
