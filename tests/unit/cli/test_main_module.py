import subprocess
import sys


def test_python_m_rephaze_is_the_command():
    run = subprocess.run([sys.executable, "-m", "rephaze", "--help"], capture_output=True, text=True, check=True)
    assert "search" in run.stdout


def test_importing_the_module_runs_nothing():
    code = "import rephaze.__main__"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == ""
