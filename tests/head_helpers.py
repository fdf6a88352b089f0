"""What the tests of the heads share: Algorithm 1 and KAN edges written out in plain loops."""

from __future__ import annotations

import copy
import math

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from edgemask.heads import HEADS
from edgemask.heads.philox import stream_of, uniform
from edgemask.heads.steps import MaskingHead

# The heads that draw one mask of edges per step, by name.
MASKING = [
    name for name, head in HEADS.items() if issubclass(head, MaskingHead) and not head.uses_labels
]


def edge_activations(v: Tensor, w: Tensor) -> Tensor:
    """The (B, C, d) tensor A of Algorithm 1, entry by entry."""
    a = torch.zeros(len(v), *w.shape, dtype=torch.float64)
    for i in range(len(v)):
        for j in range(w.shape[0]):
            for k in range(w.shape[1]):
                a[i, j, k] = float(v[i, k]) * float(w[j, k])
    return a


def raw_scores(a: Tensor, criterion: str, p: Tensor | None = None) -> Tensor:
    """Scores of the edges from A, in plain loops; p are the dense softmax outputs."""
    n, rows, columns = a.shape
    s = torch.zeros(rows, columns, dtype=torch.float64)
    for j in range(rows):
        for k in range(columns):
            column = [float(a[i, j, k]) for i in range(n)]
            if criterion == "rms":
                s[j, k] = math.sqrt(sum(x * x for x in column) / n)
            elif criterion == "second_moment":
                s[j, k] = sum(x * x for x in column) / n
            elif criterion == "mean_abs":
                s[j, k] = sum(abs(x) for x in column) / n
            elif criterion == "obd":
                q = [float(p[i, j]) for i in range(n)]
                s[j, k] = sum(b * (1 - b) * x * x for b, x in zip(q, column, strict=True)) / n / 2
            else:
                raise AssertionError(criterion)
    return s


def normalised(s: Tensor) -> Tensor:
    low, high = float(s.min()), float(s.max())
    rows = [[(float(x) - low) / (high - low) for x in row] for row in s]
    return torch.tensor(rows, dtype=torch.float64)


def smoothed(previous: Tensor | None, new: Tensor, beta: float) -> Tensor:
    return new.clone() if previous is None else beta * previous + (1 - beta) * new


def mask_of(scores: Tensor, uniform: Tensor, rho: float) -> Tensor:
    """Eq. 16, edge by edge."""
    mask = torch.zeros_like(scores)
    for j in range(scores.shape[0]):
        for k in range(scores.shape[1]):
            s = float(scores[j, k])
            kept = s >= rho or (s > 0 and float(uniform[j, k]) <= s)
            mask[j, k] = 1.0 if kept else 0.0
    return mask


def cox_de_boor(x: float, m: int, order: int, knots: list[float]) -> float:
    """B-spline number m at x, by the textbook recursion."""
    if order == 0:
        return 1.0 if knots[m] <= x < knots[m + 1] else 0.0
    left = (x - knots[m]) / (knots[m + order] - knots[m])
    right = (knots[m + order + 1] - x) / (knots[m + order + 1] - knots[m + 1])
    return left * cox_de_boor(x, m, order - 1, knots) + right * cox_de_boor(
        x, m + 1, order - 1, knots
    )


def uniform_knots(grid: int, order: int, low: float, high: float) -> list[float]:
    step = (high - low) / grid
    return [low + step * (n - order) for n in range(grid + 2 * order + 1)]


def kan_edges(layer: torch.nn.Module, v: Tensor) -> Tensor:
    """phi_jk(v_ik) for all samples and edges, (B, C, d), in plain loops."""
    low, high = layer.grid_range
    knots = uniform_knots(layer.grid_size, layer.spline_order, low, high)
    layer = copy.deepcopy(layer).requires_grad_(requires_grad=False)
    out = torch.zeros(len(v), layer.out_features, layer.in_features, dtype=torch.float64)
    for i in range(len(v)):
        for k in range(layer.in_features):
            x = float(v[i, k])
            basis = [
                cox_de_boor(x, m, layer.spline_order, knots)
                for m in range(layer.grid_size + layer.spline_order)
            ]
            silu = x / (1 + math.exp(-x))
            for j in range(layer.out_features):
                spline = sum(float(layer.spline_weight[j, k, m]) * b for m, b in enumerate(basis))
                out[i, j, k] = (
                    float(layer.base_weight[j, k]) * silu
                    + float(layer.spline_scaler[j, k]) * spline
                )
    return out


def uniform_of_next_step(head: torch.nn.Module) -> Tensor:
    """The numbers that decide the coming step's mask."""
    rows, columns = head.scores.shape
    return uniform(head.seed, head.steps, rows, columns, stream_of(rows, columns, "mask"))


class LargestTensor(TorchDispatchMode):
    """Watches every operation for the largest tensor that it makes."""

    def __init__(self) -> None:
        super().__init__()
        self.largest = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(tensor, torch.Tensor):
                self.largest = max(self.largest, tensor.numel())
        return result
