"""The losses as pure functions: logits and targets in, one value a sample out.

>>> import torch
>>> from edgemask.losses import functional
>>> functional.nce(torch.zeros(2, 4), torch.tensor([0, 3]))
tensor([0.2500, 0.2500])
"""

from __future__ import annotations

from edgemask.losses.anl import entropy_gap
from edgemask.losses.asymmetric import ael, agce, amse, anorm, aul
from edgemask.losses.bounded import mae, mse, rce, sce
from edgemask.losses.cross_entropy import cross_entropy, focal, label_smoothing
from edgemask.losses.elr import elr_probabilities, elr_regulariser
from edgemask.losses.gce import gce
from edgemask.losses.ldr import ldr
from edgemask.losses.logit_clip import clip_logits, logit_clip
from edgemask.losses.negative import nnce, nnfl
from edgemask.losses.normalized import nce, nfl, ngce
from edgemask.losses.sop import sop

__all__ = [
    "ael",
    "agce",
    "amse",
    "anorm",
    "aul",
    "clip_logits",
    "cross_entropy",
    "elr_probabilities",
    "elr_regulariser",
    "entropy_gap",
    "focal",
    "gce",
    "label_smoothing",
    "ldr",
    "logit_clip",
    "mae",
    "mse",
    "nce",
    "nfl",
    "ngce",
    "nnce",
    "nnfl",
    "rce",
    "sce",
    "sop",
]
