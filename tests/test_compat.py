import subprocess
import sys


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False
    )


def test_import_edgemask_imports_nothing_heavy() -> None:
    code = (
        "import sys, edgemask; "
        "print([m for m in ('torch', 'numpy', 'torchvision', 'kornia') if m in sys.modules])"
    )
    assert run(code).stdout.strip() == "[]"


def test_timm_imports_after_edgemask() -> None:
    code = (
        "import edgemask, timm; "
        "print(timm.create_model('resnet18', num_classes=3).get_classifier().out_features)"
    )
    done = run(code)
    assert done.stdout.strip() == "3", done.stderr


def test_torchvision_imports_after_a_failed_import() -> None:
    code = """
try:
    import torchvision
except RuntimeError:
    pass
import edgemask
import torchvision
from torchvision.models import resnet18
print(resnet18(num_classes=5).fc.out_features)
"""
    done = run(code)
    assert done.stdout.strip() == "5", done.stderr


def test_declaring_twice_is_harmless() -> None:
    code = """
from edgemask import _compat
import edgemask, torchvision
_compat.install(); _compat.install()
_compat.declare_torchvision_operators()
print(_compat.declare_torchvision_operators())
"""
    done = run(code)
    assert done.stdout.strip() == "False", done.stderr
