"""The kernels that are measured: each is copied into a project of its own, so that no run helps another."""

import shutil
from dataclasses import dataclass
from pathlib import Path

SOURCES = Path(__file__).parents[1] / "gpu_kernels"
TUNED_KERNELS = Path(__file__).parents[2] / "tests" / "kernels"


@dataclass(frozen=True)
class Kernel:
    """One benchmark.

    Attributes:
        needs: the names that the probe gives to what it needs beyond a GPU.
        source: the kernel, where it is one of those that this project tunes for exact metrics.
    """

    name: str
    test: str
    needs: tuple[str, ...]
    source: str | None = None

    def project(self, home: Path, conftest: str | None) -> Path:
        """Its project under ``home``, copied there once; ``conftest`` stands in for the kernels' own."""
        folder = home / self.name
        if not (folder / "pytest.ini").exists():  # written last: a copy that was killed is made again
            shutil.copytree(SOURCES / Path(self.test).parent, folder, dirs_exist_ok=True, ignore=LEFT_OUT)
            if self.source:
                shutil.copy(TUNED_KERNELS / self.source, folder)
            own = (SOURCES / "conftest.py").read_text(encoding="utf-8")
            (folder / "conftest.py").write_text(conftest or own, encoding="utf-8")
            (folder / "pytest.ini").touch()
        return folder

    @property
    def nodeid(self) -> str:
        """The test in that project."""
        return Path(self.test).name


LEFT_OUT = shutil.ignore_patterns("__pycache__", ".compileiq")
CALIBRATED = (
    Kernel("stencil", "stencil/test_stencil.py::test_stencil", ("nvcc",)),
    Kernel("reduction", "reduction/test_reduction.py::test_reduction", ("nvcc",), "cuda/reduction.cu"),
    Kernel("matmul", "matmul/test_matmul.py::test_matmul", ("nvcc",)),
)
KERNELS = (
    *CALIBRATED,
    Kernel(
        "triton-matmul",
        "triton_matmul/test_triton_matmul.py::test_triton_matmul",
        ("ptxas", "triton"),
        "triton_kernels/kernels.py",
    ),
    Kernel("matmul-acf", "matmul/test_matmul.py::test_matmul_acf", ("nvcc", "controls", "compileiq")),
)
