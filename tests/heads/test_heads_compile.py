"""torch.compile, torch.export, ONNX and autocast."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import textwrap

import pytest
import torch
from torch import nn

import edgemask as em
from edgemask.heads import HEADS
from head_helpers import MASKING

# Dynamic DropConnect takes its scores in the backward pass, which breaks the graph (docs/heads.md).
ONE_GRAPH = [name for name in MASKING if name != "dynamic-dropconnect"]


@pytest.fixture(autouse=True)
def _fresh_compiler() -> None:
    torch._dynamo.reset()


def twins(name: str, **options: object) -> tuple[nn.Module, nn.Module]:
    torch.manual_seed(1)
    one = HEADS[name](24, 7, **({"seed": 5} if name != "linear" else {}), **options)
    two = HEADS[name](24, 7, **({"seed": 5} if name != "linear" else {}), **options)
    two.load_state_dict(one.state_dict())
    return one, two


def compare(name: str, backend: str, *, train_only: bool = False, **options: object) -> None:
    eager, other = twins(name, **options)
    compiled = torch.compile(other, backend=backend, fullgraph=True)
    for step in range(3):
        x = torch.randn(9, 24)
        inputs = [x.clone().requires_grad_() for _ in range(2)]
        eager.zero_grad(), other.zero_grad()
        logits = [eager(inputs[0]), compiled(inputs[1])]
        for out in logits:
            out.square().sum().backward()
        torch.testing.assert_close(*logits)
        torch.testing.assert_close(inputs[0].grad, inputs[1].grad)
        assert torch.equal(eager.last_mask != 0, other.last_mask != 0), "another mask than eager's"
        for one, two in zip(eager.parameters(), other.parameters(), strict=True):
            torch.testing.assert_close(one.grad, two.grad, rtol=1e-4, atol=1e-5)
        assert int(other.steps) == step + 1
        if hasattr(eager, "scores"):
            torch.testing.assert_close(eager.scores, other.scores)
    assert 0 < other.retention < 1
    if train_only:  # each further graph costs time, with inductor half a minute
        return
    eager.eval(), other.eval()
    torch.testing.assert_close(eager(x), compiled(x))
    # a compiled run resumes as an eager one
    fresh = twins(name, **options)[0]
    fresh.load_state_dict(other.state_dict())
    other.train(), fresh.train()
    torch.testing.assert_close(compiled(x), fresh(x))


@pytest.mark.parametrize("name", ONE_GRAPH)
def test_compiled_equals_eager(name: str) -> None:
    compare(name, "aot_eager")


@pytest.mark.parametrize(
    "options",
    [
        {"policy": "bernoulli_fixed(0.3)", "criterion": "obd"},
        {"policy": "topk(0.5)", "criterion": "mean_abs"},
        {"policy": "shuffled", "criterion": "second_moment"},
        {"policy": "capped", "scaling": "inverted(10)"},
    ],
)
def test_compiled_policies_and_criteria(options: dict) -> None:
    compare("sem", "aot_eager", train_only=True, **options)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sem", "skan"])
def test_compiled_by_inductor(name: str) -> None:
    if shutil.which("g++") is None:
        pytest.skip("inductor needs a C++ compiler")
    compare(name, "inductor", train_only=True)


def test_compiled_bad_batches() -> None:
    head = em.SEMLinear(24, 7, seed=5)
    compiled = torch.compile(head, backend="aot_eager", fullgraph=True)
    compiled(torch.full((9, 24), float("nan")))
    assert int(head.steps) == 0
    assert head.last_mask.all()
    compiled(torch.randn(9, 24))
    scores = head.scores.clone()
    compiled(torch.full((9, 24), float("inf")))
    assert int(head.steps) == 1
    assert torch.equal(head.scores, scores)


def test_compiled_model_in_a_block() -> None:
    head = em.SEMLinear(24, 7)
    compiled = torch.compile(head, backend="aot_eager", fullgraph=True)
    x = torch.randn(9, 24)
    with em.one_step(compiled):
        first = compiled(x)
        assert torch.equal(first, compiled(x))
    assert int(head.steps) == 1
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), nn.functional.linear(x, head.weight, head.bias))
    with em.predicting(compiled):
        torch.testing.assert_close(compiled(x), nn.functional.linear(x, head.weight, head.bias))
    assert int(head.steps) == 1


def test_dynamic_dropconnect_compiles_with_its_hook_outside() -> None:
    # gradients reach a hook, which the compiler leaves to eager mode: no fullgraph, same result
    one, two = twins("ddc")
    compiled = torch.compile(two, backend="aot_eager")
    for _ in range(3):
        x = torch.randn(9, 24)
        a, b = one(x), compiled(x)
        torch.testing.assert_close(a, b)
        a.square().sum().backward(), b.square().sum().backward()
        torch.testing.assert_close(one.gradient, two.gradient)


def operators(head: nn.Module) -> list[str]:
    program = torch.export.export(head.eval(), (torch.randn(3, 24),))
    return [str(n.target) for n in program.graph.nodes if n.op == "call_function"]


@pytest.mark.parametrize("name", ["linear", "sem", "dropout", "dropconnect", "ddc"])
def test_exported_head_is_one_linear_operator(name: str) -> None:
    head = HEADS[name](24, 7)
    head(torch.randn(4, 24))
    assert operators(head) == ["aten.linear.default"]


@pytest.mark.parametrize("name", HEADS)
def test_exported_program_equals_the_head(name: str) -> None:
    head = HEADS[name](24, 7)
    head(torch.randn(4, 24))
    x = torch.randn(5, 24)
    batch = torch.export.Dim("batch", min=1, max=64)
    program = torch.export.export(head.eval(), (torch.randn(3, 24),), dynamic_shapes=({0: batch},))
    torch.testing.assert_close(program.module()(x), head(x))


@pytest.mark.parametrize("name", ["sem", "kan", "skan", "dropconnect"])
@pytest.mark.filterwarnings("ignore")
def test_onnx_equals_the_head(name: str) -> None:
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    model = em.attach(nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 7)), name)
    model(torch.randn(4, 12))
    x = torch.randn(5, 12)
    program = torch.onnx.export(model.eval(), (x,), dynamo=True, verbose=False)
    file = io.BytesIO()
    program.save(file)
    session = runtime.InferenceSession(file.getvalue(), providers=["CPUExecutionProvider"])
    (out,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    torch.testing.assert_close(torch.from_numpy(out), model(x).detach(), rtol=1e-5, atol=1e-5)


AUTOCAST = textwrap.dedent(
    """
    import sys, torch, edgemask as em
    dtype = getattr(torch, sys.argv[1])
    for kind in (em.SEMLinear, em.SKANLinear):
        torch.manual_seed(0)
        head, plain = kind(64, 9, seed=1), kind(64, 9, seed=1)
        plain.load_state_dict(head.state_dict())
        for _ in range(3):
            x = torch.randn(32, 64)
            with torch.autocast("cpu", dtype=dtype):
                out = head(x)
            ref = plain(x)
            assert out.dtype == dtype, out.dtype
            assert head.scores.dtype == head.last_mask.dtype == torch.float32
            if kind is em.SEMLinear:
                assert torch.equal(head.scores, plain.scores), "statistics are not float32"
                assert torch.equal(head.last_mask, plain.last_mask)
            torch.testing.assert_close(out.float(), ref, rtol=0.1, atol=0.1)
            out.float().square().sum().backward()
            weight = head.edge_weight()
            assert weight.grad.dtype == torch.float32
            assert (weight.grad[head.last_mask == 0] == 0).all()
            weight.grad = None
        half = torch.randn(8, 64).to(dtype)
        with torch.autocast("cpu", dtype=dtype):
            head(half)
        big = em.SEMLinear(64, 9)
        with torch.autocast("cpu", dtype=dtype):
            big((torch.rand(8, 64) * 300).to(dtype))
        assert big.scores.isfinite().all() and int(big.steps) == 1
    obd = em.SEMLinear(64, 9, criterion="obd", seed=1)
    ref = em.SEMLinear(64, 9, criterion="obd", seed=1)
    ref.load_state_dict(obd.state_dict())
    with torch.autocast("cpu", dtype=dtype):
        obd(x)
    ref(x)
    assert torch.equal(obd.scores, ref.scores)
    for module in (em.SEMLinear(64, 9, dtype=dtype), em.SEMLinear(64, 9).to(dtype)):
        out = module(x.to(dtype))
        out.sum().backward()
        assert out.dtype == module.weight.grad.dtype == dtype
        assert module.scores.dtype == module.last_mask.dtype == torch.float32
        assert (module.weight.grad[module.last_mask == 0] == 0).all()
    print("autocast ok")
    """
)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_types_keep_statistics_and_masks_in_float32(dtype: str) -> None:
    # In a process of its own: bfloat16 products kill it on CPUs that advertise AMX in vain. Most
    # of those can be told to leave AMX alone.
    for extra in ({}, {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}):
        command = [sys.executable, "-c", AUTOCAST, dtype]
        # plain torch on both sides, so that statistics can be compared to the bit
        environment = {**os.environ, "EDGEMASK_NATIVE": "0", **extra}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode >= 0:
            break
    else:
        pytest.skip(f"{dtype} matrix products kill the process on this CPU ({done.returncode})")
    assert "autocast ok" in done.stdout, done.stderr
