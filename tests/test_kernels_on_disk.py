"""Compiled kernels on disk: used again, unless something that they were made of has changed."""

import subprocess
import sys

CONSTANT = "ANSWER = {}\n"
KERNEL = """
from germane.kernels.compile import is_on_disk, kernel
from germane.kernels.made_up_constant import ANSWER

@kernel
def answer():
    return ANSWER
"""
ASK = """
import sys
import germane.kernels
germane.kernels.__path__.append(sys.argv[1])
from germane.kernels.made_up_kernel import answer, is_on_disk
print(is_on_disk(answer), answer())
"""


def test_a_kernel_follows_the_constants_that_it_imports(tmp_path):
    """Numba looks at a kernel's own file alone: a constant of another one stayed as it was."""

    def ask():
        command = [sys.executable, "-B", "-c", ASK, str(tmp_path)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()

    (tmp_path / "made_up_constant.py").write_text(CONSTANT.format(41))
    (tmp_path / "made_up_kernel.py").write_text(KERNEL)
    assert ask() == ["False", "41"]
    assert ask() == ["True", "41"]
    (tmp_path / "made_up_constant.py").write_text(CONSTANT.format(42))
    assert ask() == ["False", "42"]
