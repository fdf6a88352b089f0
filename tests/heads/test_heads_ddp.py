"""Several processes equal one on the joined batch, with one all-reduce a step."""

from __future__ import annotations

import gc
import os
import socket
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import edgemask as em
from edgemask.heads import DynamicDropConnectLinear

STEPS = 3
CASES: dict[str, dict] = {
    "sem": {"head": "sem", "numbers": 7},
    "sem-mean-abs": {"head": "sem", "criterion": "mean_abs", "numbers": 7},
    "sem-obd": {"head": "sem", "criterion": "obd", "numbers": 6 * 4 + 1},
    "sem-topk": {"head": "sem", "policy": "topk(0.4)", "numbers": 7},
    "skan": {"head": "skan", "numbers": 81 * 6 + 1},
    "dropconnect": {"head": "dropconnect", "numbers": None},
    "ddc": {"head": "ddc", "numbers": 24},
    "adaptive": {"head": "adaptive", "held_out": 0.4, "numbers": 4097 + 13},
}
SPLITS = {"equal": (4, 4), "unequal": (1, 7), "empty": (8, 0)}


def make(case: str) -> nn.Module:
    options = {k: v for k, v in CASES[case].items() if k not in ("head", "numbers")}
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 4)).double()
    return em.attach(model, CASES[case]["head"], seed=11, **options)


def batches() -> list[tuple[torch.Tensor, torch.Tensor]]:
    g = torch.Generator().manual_seed(5)
    return [
        (torch.randn(8, 5, generator=g).double(), torch.randint(4, (8,), generator=g))
        for _ in range(STEPS)
    ]


def train(model: nn.Module, share: slice, world: int, reduce: bool) -> dict[str, list]:
    """Train on a share of each batch; losses are sums over it, over the whole batch's size."""
    inner = model.module if isinstance(model, DistributedDataParallel) else model
    optimiser = torch.optim.SGD(inner.parameters(), lr=0.2)
    seen: dict[str, list] = {"loss": [], "mask": [], "scores": [], "grad": []}
    for x, y in batches():
        optimiser.zero_grad()
        em.observe(inner, torch.arange(8)[share], y[share])
        loss = nn.functional.cross_entropy(model(x[share]), y[share], reduction="sum") / 8
        # DistributedDataParallel divides by the number of ranks
        (loss * world if isinstance(model, DistributedDataParallel) else loss).backward()
        total = loss.detach().clone()
        if world > 1:
            if reduce:
                for p in inner.parameters():
                    dist.all_reduce(p.grad)
            dist.all_reduce(total)
        optimiser.step()
        seen["loss"].append(total)
        seen["mask"].append(inner[2].last_mask.clone())
        head = inner[2]
        state = getattr(head, "scores", getattr(head, "adapted", torch.zeros(())))
        seen["scores"].append(state.clone())
        seen["grad"].append([p.grad.clone() for p in inner.parameters()])
    return seen


def work(rank: int, port: int, folder: str) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=2)
    results: dict[str, object] = {}
    original = dist.all_reduce
    sizes: list[int] = []

    def counted(tensor: torch.Tensor, *args: object, **kwargs: object) -> object:
        sizes.append(tensor.numel())
        return original(tensor, *args, **kwargs)

    for case in CASES:
        for split, (first, _) in SPLITS.items():
            share = slice(0, first) if rank == 0 else slice(first, 8)
            results[f"{case}/{split}"] = train(make(case), share, 2, reduce=True)
            wrapped = DistributedDataParallel(make(case))
            results[f"{case}/{split}/ddp"] = train(wrapped, share, 2, reduce=False)
            del wrapped
        model = make(case)
        model(batches()[0][0])[0].sum().backward()
        sizes.clear()
        dist.all_reduce = counted
        with em.one_step(model):
            for x, y in batches():
                if not sizes:
                    em.observe(model, torch.arange(8), y)
                model(x)
        with torch.no_grad():
            model(x)
        dist.all_reduce = original
        results[f"{case}/sizes"] = list(sizes)

    # ranks whose random states differ still agree, whatever is wrapped first
    torch.manual_seed(rank)
    late = DistributedDataParallel(nn.Sequential(nn.Linear(5, 6), nn.Linear(6, 4)))
    torch.rand(rank)
    em.attach(late, "sem")
    late(torch.randn(8, 5)).sum().backward()
    results["late"] = late.module[1].last_mask.clone()

    # fixed weights under several torch seeds: rank 0's draw decides, and the seeds differ
    results["seeds"] = []
    for seed in range(3):
        fixed = nn.Sequential(nn.Linear(5, 6), nn.Linear(6, 4))
        for p in fixed.parameters():
            nn.init.constant_(p, 0.5)
        torch.manual_seed(10 * seed + rank)
        results["seeds"].append(int(em.attach(fixed, "sem")[1].seed))

    # not finite on one rank: no rank steps
    model = make("sem")
    model(batches()[0][0])
    model(torch.full((4, 5), float("nan" if rank else 1)).double())
    results["nan"] = (int(model[2].steps), model[2].scores.clone(), model[2].last_mask.clone())

    torch.save(results, Path(folder) / f"{rank}.pt")
    dist.barrier()
    del late, model
    gc.collect()
    dist.destroy_process_group()
    os._exit(0)  # gloo's threads abort now and then at a regular exit


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[dict]:
    folder = tmp_path_factory.mktemp("ranks")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = mp.get_context("spawn")
    workers = [context.Process(target=work, args=(rank, port, str(folder))) for rank in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
        assert worker.exitcode == 0
    return [torch.load(folder / f"{rank}.pt", weights_only=False) for rank in range(2)]


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("case", CASES)
def test_two_ranks_equal_one_process(ranks: list, case: str, split: str, wrapped: bool) -> None:
    single = train(make(case), slice(None), 1, reduce=False)
    key = f"{case}/{split}" + ("/ddp" if wrapped else "")
    for rank in ranks:
        for step in range(STEPS):
            torch.testing.assert_close(
                rank[key]["mask"][step], single["mask"][step], rtol=1e-12, atol=0
            )
            for name in ("loss", "scores"):
                torch.testing.assert_close(
                    rank[key][name][step], single[name][step], rtol=1e-6, atol=1e-9
                )
            for mine, other in zip(rank[key]["grad"][step], single["grad"][step], strict=True):
                torch.testing.assert_close(mine, other, rtol=1e-6, atol=1e-9)
    assert any((mask == 0).any() for mask in single["mask"]) or case == "adaptive"


@pytest.mark.parametrize("case", CASES)
def test_one_all_reduce_a_step(ranks: list, case: str) -> None:
    numbers = CASES[case]["numbers"]
    for rank in ranks:
        assert rank[f"{case}/sizes"] == ([] if numbers is None else [numbers])


def test_attached_after_wrapping(ranks: list) -> None:
    assert torch.equal(ranks[0]["late"], ranks[1]["late"])
    assert (ranks[0]["late"] == 0).any()


def test_heads_on_fixed_weights_follow_torch_s_seed_of_rank_0(ranks: list) -> None:
    assert ranks[0]["seeds"] == ranks[1]["seeds"]
    assert len(set(ranks[0]["seeds"])) == 3


def test_bad_features_on_one_rank_stop_all(ranks: list) -> None:
    for steps, scores, mask in (rank["nan"] for rank in ranks):
        assert steps == 1
        assert scores.isfinite().all()
        assert torch.equal(mask, ranks[0]["nan"][2])


def test_a_single_process_reduces_nothing() -> None:
    assert isinstance(make("ddc")[2], DynamicDropConnectLinear)
    assert not dist.is_initialized()
