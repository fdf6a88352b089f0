"""With torch and numpy alone heads, losses, noise and audits work; all else names its extra."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

# Blocks every package that is installed beside torch, numpy and what these need themselves.
BLOCK = """
import importlib.abc, importlib.metadata, sys
NEEDED = {"torch", "torchgen", "functorch", "numpy", "typing_extensions", "sympy", "mpmath",
          "networkx", "jinja2", "markupsafe", "filelock", "fsspec", "setuptools", "edgemask"}

BLOCKED = set(importlib.metadata.packages_distributions()) - NEEDED

class Block(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        root = name.partition(".")[0]
        if root in BLOCKED:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

import torch._dynamo  # looks for packages that it can do without
for name in [name for name in sys.modules if name.partition(".")[0] in BLOCKED]:
    del sys.modules[name]
sys.meta_path.insert(0, Block())
"""
WORKS = """
import numpy as np, torch
from torch import nn
import edgemask as em

net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
em.attach(net, "sem", at="2")
optimiser = torch.optim.SGD(net.parameters(), lr=0.1)
criterion = em.losses.preset("jal", "cifar10")
x, y = torch.randn(20, 6), torch.arange(20) % 3
for _ in range(3):
    optimiser.zero_grad()
    criterion(net(x), y).backward()
    optimiser.step()
em.detach(net)
assert type(net[2]) is nn.Linear
for name in em.losses.LOSSES:
    em.losses.LOSSES[name]
for head in ("kan", "skan", "dropout", "dropconnect", "ddc", "sem"):
    em.attach(nn.Sequential(nn.Linear(6, 3)), head, at="0")(x).sum().backward()
made = em.noise.symmetric(np.arange(100) % 10, 0.4, 10, seed=0)
assert made.realised_rate > 0.2
probabilities = torch.softmax(torch.randn(60, 3), 1).numpy()
audit = em.audit.from_probabilities(np.arange(60) % 3, probabilities)
assert len(audit.trust) == 60
print("works")
"""
NEEDS = {
    "em.fit(np.random.rand(40, 3).astype('f4'), np.arange(40) % 2, out=out)": "edgemask[app]",
    "em.engine.load_run(out)": "edgemask[app]",
    "em.models.create('timm:resnet18', num_classes=3, input_shape=(3, 32, 32))": "edgemask[timm]",
}


def run(script: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.run(
        [sys.executable, "-c", BLOCK + script],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )


def test_torch_and_numpy_are_enough_for_a_loop_of_ones_own():
    done = run(WORKS)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout == "works\n"


def test_what_needs_an_extra_names_it(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "config.yaml").write_text("schema: 2\n")
    calls = "\n".join(
        f"attempt(lambda: exec({line!r}, {{'em': em, 'np': np, 'out': {str(folder)!r}}}))"
        for line in NEEDS
    )
    done = run(
        "import numpy as np, edgemask as em\n"
        "def attempt(call):\n"
        "    try:\n"
        "        call()\n"
        "        print('no error')\n"
        "    except Exception as error:\n"
        "        print(type(error).__name__, ' '.join(str(error).split()))\n" + calls
    )
    assert done.returncode == 0, done.stderr[-3000:]
    lines = done.stdout.splitlines()
    for (call, extra), line in zip(NEEDS.items(), lines, strict=True):
        assert line.startswith("MissingExtraError"), (call, line)
        assert f'pip install "{extra}"' in line, (call, line)


def test_the_command_names_its_extra():
    done = run("import sys\nfrom edgemask.cli import main\nsys.argv = ['edgemask']\nmain()\n")
    assert done.returncode == 2
    assert 'pip install "edgemask[app]"' in done.stderr
    assert "Traceback" not in done.stderr


def test_the_base_dependencies_are_torch_and_numpy():
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    line = next(line for line in text.splitlines() if line.startswith("dependencies"))
    assert line.count(">=") == 2
    assert '"torch>=' in line
    assert '"numpy>=' in line
