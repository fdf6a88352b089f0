"""Robust losses, one family per file: logits and targets in, per-sample values or their mean out.

>>> import torch
>>> from edgemask import losses
>>> criterion = losses.preset("jal", "cifar10")
>>> criterion(torch.zeros(2, 10), torch.tensor([3, 7]))
tensor(89.5100)
"""

from __future__ import annotations

from edgemask._registry import Registry
from edgemask.losses import functional
from edgemask.losses.asymmetric import AELLoss, AGCELoss, AMSELoss, ANormLoss, AULLoss
from edgemask.losses.base import Loss, loss
from edgemask.losses.bounded import MAELoss, MSELoss, RCELoss
from edgemask.losses.build import build
from edgemask.losses.cross_entropy import CELoss, FocalLoss, LabelSmoothingLoss
from edgemask.losses.elr import ELRLoss
from edgemask.losses.gce import GCELoss, TruncatedGCELoss
from edgemask.losses.ldr import LDRLoss
from edgemask.losses.logit_clip import LogitClipLoss
from edgemask.losses.negative import NNCELoss, NNFLLoss
from edgemask.losses.normalized import NCELoss, NFLLoss, NGCELoss
from edgemask.losses.pairs import (
    ANLCEERLoss,
    ANLCELoss,
    ANLFLLoss,
    JALCELoss,
    JALFLLoss,
    NCEAELLoss,
    NCEAGCELoss,
    NCEAULLoss,
    NCEMAELoss,
    NCERCELoss,
    NFLMAELoss,
    NFLRCELoss,
    NGCEMAELoss,
    NGCERCELoss,
    PairLoss,
    SCELoss,
)
from edgemask.losses.presets import Preset, preset, preset_settings
from edgemask.losses.sop import SOPLoss
from edgemask.losses.transition import (
    BackwardCorrectionLoss,
    ForwardCorrectionLoss,
    TransitionLoss,
)

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
    "BackwardCorrectionLoss",
    "CELoss",
    "ELRLoss",
    "FocalLoss",
    "ForwardCorrectionLoss",
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
    "NGCEMAELoss",
    "NGCERCELoss",
    "NNCELoss",
    "NNFLLoss",
    "PairLoss",
    "Preset",
    "RCELoss",
    "SCELoss",
    "SOPLoss",
    "TransitionLoss",
    "TruncatedGCELoss",
    "build",
    "functional",
    "loss",
    "preset",
    "preset_settings",
]

LOSSES: Registry[type[Loss]] = Registry(
    "loss",
    {
        "ce": CELoss,
        "label-smoothing": LabelSmoothingLoss,
        "focal": FocalLoss,
        "mae": MAELoss,
        "mse": MSELoss,
        "gce": GCELoss,
        "truncated-gce": TruncatedGCELoss,
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
        "ngce+rce": NGCERCELoss,
        "ngce+mae": NGCEMAELoss,
        "nce+agce": NCEAGCELoss,
        "nce+aul": NCEAULLoss,
        "nce+ael": NCEAELLoss,
        "anl-ce": ANLCELoss,
        "anl-fl": ANLFLLoss,
        "anl-ce-er": ANLCEERLoss,
        "jal-ce": JALCELoss,
        "jal-fl": JALFLLoss,
        "ldr": LDRLoss,
        "logit-clipping": LogitClipLoss,
        "elr": ELRLoss,
        "sop": SOPLoss,
        "forward-correction": ForwardCorrectionLoss,
        "backward-correction": BackwardCorrectionLoss,
    },
    aliases={
        "anl": "anl-ce",
        "ce+lc": "logit-clipping",
        "jal": "jal-ce",
        "ls": "label-smoothing",
        "tgce": "truncated-gce",
    },
)
