"""The wheel: built, installed in a fresh environment and used from a folder that knows nothing of the sources."""

import json
import os
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "rephaze"
DESIGNS = "num_tensor_cores,num_vector_cores,width,depth,global_buffer_bytes\n8,2,128,128,134217728\n"
# What python and this test run would otherwise hand down.
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def run(*command, cwd):
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=ROOT)
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """The ``bin`` folder of a fresh environment; what rephaze depends on is lent to it, not downloaded."""
    folder = tmp_path_factory.mktemp("environment")
    builder = venv.EnvBuilder(with_pip=False, symlinks=os.name != "nt")
    builder.create(folder)
    context = builder.ensure_directories(folder)
    lent = [path for path in sys.path if Path(path).name == "site-packages"]
    # Folders named in a .pth file come last, and their own .pth files, an editable install's, are not read.
    where = run(context.env_exe, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder)
    (Path(where.strip()) / "lent.pth").write_text("\n".join(lent) + "\n")
    install = ("install", "--no-deps", "--no-index", "--no-compile", "--disable-pip-version-check", wheel)
    run(sys.executable, "-m", "pip", "--python", context.env_exe, *install, cwd=folder)
    return Path(context.bin_path)


def test_the_wheel_holds_the_package_with_its_data_and_nothing_else(wheel):
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    sources = [path for path in PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert held == {path.relative_to(PACKAGE.parent).as_posix() for path in sources}
    suffixes = {Path(name).suffix for name in held}
    assert suffixes >= {".css", ".gz", ".json", ".toml", ".typed"}, "data goes with the code"
    assert any("graphs/gpt2-xl.fused" in name for name in held)
    assert any("presets/tpuv4" in name for name in held)
    assert any("expert_plans" in name for name in held)
    assert not any("test_" in name or "bench_" in name for name in held)


def test_the_installed_command_works_from_any_folder(installed, tmp_path):
    def rephaze(*arguments):
        return run(installed / "rephaze", *arguments, cwd=tmp_path)

    where = run(installed / "python", "-c", "import rephaze; print(rephaze.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(installed.parent)
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert rephaze("--version") == f"rephaze {version}\n"
    listed = [json.loads(line) for line in rephaze("models", "--json").splitlines()]
    assert "gpt2-xl" in json.dumps(listed)
    assert "tpuv4" in rephaze("chips", "--json")
    (tmp_path / "designs.csv").write_text(DESIGNS)
    (area,) = (json.loads(line) for line in rephaze("area", "designs.csv", "--json").splitlines())
    assert area["area_um2"] > 1e8
