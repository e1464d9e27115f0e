import pytest

from rephaze.schedule.warmup import compile_kernels


@pytest.fixture(autouse=True, scope="session")
def _compiled_kernels():
    """Kernels compile before any time limit of a test runs: on a busy machine that takes longer than limits."""
    compile_kernels()
