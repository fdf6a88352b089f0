"""``edgemask doctor``: what this machine has and what works on it."""

from __future__ import annotations

import inspect
import os
import platform
import shutil
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Annotated, Any

import typer

from edgemask.cli.options import DataRoot, Json
from edgemask.cli.screen import say

__all__ = ["doctor"]

# Packages by the extra that installs them.
_PACKAGES = {
    "base": ("torch", "numpy"),
    "app": (
        "accelerate", "jinja2", "kornia", "matplotlib", "pandas", "pillow", "pydantic", "pyyaml",
        "rich", "safetensors", "scikit-learn", "tensorboard", "typer",
    ),
    "fast": ("numba",),
    "timm": ("timm", "torchvision"),
    "onnx": ("onnx", "onnxscript", "onnxruntime"),
    "ray": ("ray",),
    "hf": ("transformers", "datasets"),
    "lightning": ("lightning",),
    "parquet": ("pyarrow",),
    "skorch": ("skorch",),
}  # fmt: skip


def doctor(
    data_root: DataRoot = None,
    data: Annotated[
        bool | None,
        typer.Option(
            "--data/--no-data",
            help="Read and check every dataset, or leave datasets out; otherwise only whether "
            "their files are there is looked up.",
        ),
    ] = None,
    gpu: Annotated[
        bool,
        typer.Option("--gpu", help="Check instead that a GPU does what the CPU does (minutes)."),
    ] = False,
    device: Annotated[
        str,
        typer.Option(metavar="NAME", help="With --gpu: cuda, cuda:N, or cpu to try the checks."),
    ] = "cuda",
    as_json: Json = False,
) -> None:
    """Show what works on this machine: packages, devices, number formats, datasets."""
    from edgemask.cli.screen import print_json, print_table

    if gpu:
        _check_device(device, as_json=as_json)
        return
    with ThreadPoolExecutor(1) as beside:
        found: dict[str, Any] = {"system": _system()}
        precision = beside.submit(_precision)  # waits for a process that tries bf16
        found |= {"packages": _packages(), "devices": _devices()}
        datasets = []
        if data is not False:
            root = str(data_root) if data_root is not None else None
            datasets = _data(root, read=bool(data))
        found["precision"] = precision.result()
        if datasets:
            found["data"] = datasets
    if as_json:
        print_json(found)
        return
    packages = [
        (row["name"], row["version"] or f"missing: {row['install']}", row["extra"])
        for row in found["packages"]
    ]
    tables: list[tuple[list[str], Sequence[tuple[str, ...]]]] = [
        (["system", ""], [(key, str(value)) for key, value in found["system"].items()]),
        (["package", "version", "extra"], packages),
        (["device", "what it is"], [(row["name"], row["about"]) for row in found["devices"]]),
        (
            ["precision", "on the CPU"],
            [(name, problem or "works") for name, problem in found["precision"].items()],
        ),
        (["dataset", "state"], [(row["name"], row["about"]) for row in found.get("data", [])]),
    ]
    for number, (columns, rows) in enumerate(table for table in tables if table[1]):
        if number:
            say()
        print_table(columns, rows)


def _check_device(device: str, *, as_json: bool) -> None:
    """Print the outcome of each check as it comes, a verdict, and what it was seen with."""
    from dataclasses import asdict

    from edgemask.cli.errors import FAILURE
    from edgemask.cli.screen import print_json
    from edgemask.engine.device_check import check_device

    found = []
    for check in check_device(device):
        found.append(check)
        if not as_json:
            say(f"{check.state:<8} {check.name}: {check.about}")
    failed = sum(check.state == "failed" for check in found)
    skipped = sum(check.state == "skipped" for check in found)
    verdict = f"{len(found) - failed - skipped} of {len(found)} checks hold on {device}"
    verdict += f", {failed} failed" * bool(failed) + f", {skipped} skipped" * bool(skipped)
    machine = ", ".join(row["about"] for row in _devices() if row["name"].startswith(device))
    versions = {name: _version(name) for name in ("edgemask", "torch", "accelerate", "numpy")}
    if as_json:
        checks = [asdict(check) for check in found]
        print_json({"checks": checks, "verdict": verdict, "on": machine, "versions": versions})
    else:
        say(verdict)
        listed = ", ".join(f"{name} {number}" for name, number in versions.items())
        say(f"{machine}; {listed}, Python {platform.python_version()}, {platform.platform()}")
    if failed:
        raise typer.Exit(FAILURE)


def _system() -> dict[str, Any]:
    import torch

    from edgemask import __version__

    return {
        "edgemask": __version__,
        "python": f"{platform.python_version()} ({sys.executable})",
        "platform": platform.platform(),
        "processors": os.cpu_count(),
        "torch threads": torch.get_num_threads(),
        "torch.compile": _compiler(),
        "EDGEMASK_DATA": os.environ.get("EDGEMASK_DATA") or "not set",
    }


def _compiler() -> str:
    names = (os.environ.get("CXX"), "g++", "clang++")
    found = next((name for name in names if name and shutil.which(name)), None)
    if found is None:
        return "no C++ compiler: use --compile aot_eager, or none"
    return f"inductor can use {found}"


def _version(package: str) -> str:
    """Return the version of a package; torch's own names the build too, such as ``+cu124``."""
    if package == "torch":
        import torch

        return str(torch.__version__)
    return version(package)


def _packages() -> list[dict[str, Any]]:
    rows = []
    for extra, names in _PACKAGES.items():
        for name in names:
            try:
                installed: str | None = _version(name)
            except PackageNotFoundError:
                installed = None
            install = f'pip install "edgemask[{extra}]"' if extra != "base" else "pip install torch"
            rows.append({"name": name, "version": installed, "extra": extra, "install": install})
    return rows


def _devices() -> list[dict[str, str]]:
    import torch

    cpu = {
        "name": "cpu",
        "about": f"{platform.machine()}, {torch.backends.cpu.get_cpu_capability()}",
    }
    rows = [cpu]
    for number in range(torch.cuda.device_count()):
        about = torch.cuda.get_device_properties(number)
        memory = about.total_memory / 2**30
        rows.append({"name": f"cuda:{number}", "about": f"{about.name}, {memory:.0f} GiB"})
    if torch.backends.mps.is_available():
        rows.append({"name": "mps", "about": "Apple's Metal"})
    return rows


def _precision() -> dict[str, str | None]:
    import torch

    from edgemask.engine.precision import usable_precision

    cpu = torch.device("cpu")
    return {name: usable_precision(name, cpu)[1] for name in ("fp32", "bf16", "fp16")}


def _data(root: str | None, *, read: bool) -> list[dict[str, Any]]:
    """Return for every dataset whether it is there, and what was checked of it.

    Args:
        root: The folder of the named datasets.
        read: Read every file and compare its checksum, which takes seconds; otherwise only look up
            the files and their size.
    """
    from edgemask.data import DATASETS, load
    from edgemask.errors import UserError

    rows: list[dict[str, Any]] = []
    for name, reader in DATASETS.items():
        if "path" in inspect.signature(reader).parameters:
            rows.append({"name": name, "found": None, "about": f"your own: --data {name}:PATH"})
            continue
        about = None if read else _files_of(name, root)
        if about is None:
            try:
                bundle = load(name, root=root)
            except UserError as error:
                rows.append({"name": name, "found": False, "about": f"missing: {error}"})
                continue
            tests = sum(len(split) for split in bundle.tests.values())
            about = (
                f"read and checked: {len(bundle.train):,} training and {tests:,} test samples, "
                f"{bundle.num_classes} classes"
            )
        rows.append({"name": name, "found": True, "about": about})
    return rows


def _files_of(name: str, root: str | None) -> str | None:
    """Return where the files of a dataset are and how large they are, None if they are not there.

    A dataset of single images, which may be a million files, is not measured.
    """
    from edgemask.data.sources import source_paths

    if name == "digits":
        return "comes with scikit-learn" if find_spec("sklearn") else None
    places = source_paths(name, root=root)
    if not places:
        return None
    files = list(places[0].iterdir())
    if any(file.is_dir() for file in files):
        return f"found: {places[0]} (not read; doctor --data checks it)"
    size = sum(file.stat().st_size for file in files) / 1e6
    return f"found: {places[0]}, {size:,.0f} MB (not read; doctor --data checks it)"
