"""Robust losses, one family a file: logits and targets in, per-sample values or their mean out.

>>> import torch
>>> from edgemask import losses
>>> criterion = losses.preset("jal", "cifar10")
>>> criterion(torch.zeros(2, 10), torch.tensor([3, 7]))
tensor(89.5100)
"""

from __future__ import annotations

from edgemask._registry import Registry
from edgemask.losses import functional
from edgemask.losses.alf import NCEAELLoss, NCEAGCELoss, NCEAULLoss
from edgemask.losses.anl import ANLCEERLoss, ANLCELoss, ANLFLLoss
from edgemask.losses.apl import NCEMAELoss, NCERCELoss, NFLMAELoss, NFLRCELoss
from edgemask.losses.asymmetric import AELLoss, AGCELoss, AMSELoss, ANormLoss, AULLoss
from edgemask.losses.base import Loss
from edgemask.losses.bounded import MAELoss, MSELoss, RCELoss, SCELoss
from edgemask.losses.build import build
from edgemask.losses.cross_entropy import CELoss, FocalLoss, LabelSmoothingLoss
from edgemask.losses.elr import ELRLoss
from edgemask.losses.gce import GCELoss, TruncatedGCELoss
from edgemask.losses.jal import JALCELoss, JALFLLoss
from edgemask.losses.ldr import LDRLoss
from edgemask.losses.logit_clip import LogitClipLoss
from edgemask.losses.negative import NNCELoss, NNFLLoss
from edgemask.losses.normalized import NCELoss, NFLLoss, NGCELoss
from edgemask.losses.pair import PairLoss
from edgemask.losses.presets import Preset, preset, preset_settings
from edgemask.losses.sop import SOPLoss

__all__ = [
    "LOSSES",
    "AELLoss",
    "AGCELoss",
    "AMSELoss",
    "ANLCEERLoss",
    "ANLCELoss",
    "ANLFLLoss",
    "ANormLoss",
    "AULLoss",
    "CELoss",
    "ELRLoss",
    "FocalLoss",
    "GCELoss",
    "JALCELoss",
    "JALFLLoss",
    "LDRLoss",
    "LabelSmoothingLoss",
    "LogitClipLoss",
    "Loss",
    "MAELoss",
    "MSELoss",
    "NCEAELLoss",
    "NCEAGCELoss",
    "NCEAULLoss",
    "NCELoss",
    "NCEMAELoss",
    "NCERCELoss",
    "NFLLoss",
    "NFLMAELoss",
    "NFLRCELoss",
    "NGCELoss",
    "NNCELoss",
    "NNFLLoss",
    "PairLoss",
    "Preset",
    "RCELoss",
    "SCELoss",
    "SOPLoss",
    "TruncatedGCELoss",
    "build",
    "functional",
    "preset",
    "preset_settings",
]

# A short name stands after the full one that it means.
LOSSES: Registry[type[Loss]] = Registry(
    "loss",
    {
        "ce": CELoss,
        "ls": LabelSmoothingLoss,
        "focal": FocalLoss,
        "mae": MAELoss,
        "mse": MSELoss,
        "gce": GCELoss,
        "tgce": TruncatedGCELoss,
        "rce": RCELoss,
        "sce": SCELoss,
        "nce": NCELoss,
        "nfl": NFLLoss,
        "ngce": NGCELoss,
        "nnce": NNCELoss,
        "nnfl": NNFLLoss,
        "agce": AGCELoss,
        "aul": AULLoss,
        "ael": AELLoss,
        "amse": AMSELoss,
        "anorm": ANormLoss,
        "nce+rce": NCERCELoss,
        "nce+mae": NCEMAELoss,
        "nfl+rce": NFLRCELoss,
        "nfl+mae": NFLMAELoss,
        "nce+agce": NCEAGCELoss,
        "nce+aul": NCEAULLoss,
        "nce+ael": NCEAELLoss,
        "anl-ce": ANLCELoss,
        "anl-fl": ANLFLLoss,
        "anl-ce-er": ANLCEERLoss,
        "anl": ANLCELoss,
        "jal-ce": JALCELoss,
        "jal-fl": JALFLLoss,
        "jal": JALCELoss,
        "ldr": LDRLoss,
        "ce+lc": LogitClipLoss,
        "elr": ELRLoss,
        "sop": SOPLoss,
    },
)
