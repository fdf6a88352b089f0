"""Layers that replace the last linear layer of a model.

The heads by name are in :data:`HEADS`; :func:`attach` puts one into any model.
"""

from torch import nn

from edgemask._registry import Registry
from edgemask.heads import theory
from edgemask.heads.adaptive import AdaptiveLinear
from edgemask.heads.attach import attach, detach, find_classifier, plain_state_dict
from edgemask.heads.criteria import CRITERIA
from edgemask.heads.ddc import DynamicDropConnectLinear
from edgemask.heads.dropconnect import DropConnectLinear
from edgemask.heads.dropout import DropoutLinear
from edgemask.heads.kan import KANLinear
from edgemask.heads.policies import POLICIES
from edgemask.heads.scaled import ScaledLinear
from edgemask.heads.sem import SEMLinear
from edgemask.heads.skan import SKANLinear
from edgemask.heads.steps import observe, one_step, predicting

__all__ = [
    "CRITERIA",
    "HEADS",
    "POLICIES",
    "AdaptiveLinear",
    "DropConnectLinear",
    "DropoutLinear",
    "DynamicDropConnectLinear",
    "KANLinear",
    "SEMLinear",
    "SKANLinear",
    "ScaledLinear",
    "attach",
    "detach",
    "find_classifier",
    "observe",
    "one_step",
    "plain_state_dict",
    "predicting",
    "theory",
]

HEADS: Registry[type[nn.Module]] = Registry(
    "head",
    {
        "linear": nn.Linear,
        "sem": SEMLinear,
        "kan": KANLinear,
        "skan": SKANLinear,
        "dropout": DropoutLinear,
        "dropconnect": DropConnectLinear,
        "dynamic-dropconnect": DynamicDropConnectLinear,
        "scaled": ScaledLinear,
        "adaptive": AdaptiveLinear,
    },
    aliases={"ddc": "dynamic-dropconnect"},
)
