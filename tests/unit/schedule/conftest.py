import pytest

from rephaze.schedule.warmup import compile_kernels


@pytest.fixture(autouse=True, scope="session")
def _compiled_kernels():
    """Kernels compile once before any test's time limit runs: on a busy machine that takes longer than the limits."""
    compile_kernels()
