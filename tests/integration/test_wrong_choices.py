"""A wrong word in a run or scenario file, as a user sees it: one line, no traceback."""

from importlib.resources import files

import pytest

from tests.kits.command import rephaze

COARSE_TOML = files("rephaze.hardware").joinpath("data", "scenarios", "coarse.toml").read_text("utf-8")


@pytest.mark.parametrize(
    ("text", "args", "said"),
    [
        (
            'all_cores_excludes = "core"\n',
            ("search", "gpt2-xl", "--config", "mine.toml"),
            "error: mine.toml: all_cores_excludes is 'core': must be one of chip, engine",
        ),
        (
            COARSE_TOML.replace('["none", "block", "stage"]', '["full"]'),
            ("search", "gpt2-xl", "--scenario", "mine.toml", "--devices", "8"),
            "error: mine.toml: training.recompute.0 is 'full': must be one of none, block, stage",
        ),
        (
            COARSE_TOML.replace('"corrected"', '"correct"'),
            ("space", "--scenario", "mine.toml"),
            "error: mine.toml: space.area_model is 'correct': must be one of paper, corrected; "
            "did you mean 'corrected'?",
        ),
        ("", ("search", "gpt2-xl", "--scenario", "mine.toml"), "error: mine.toml: title is None: is required"),
        ('search = "text"\n', ("search", "--config", "mine.toml"), "error: mine.toml: search is 'text': must be"),
    ],
)
def test_a_wrong_word_is_one_line(tmp_path, text, args, said):
    (tmp_path / "mine.toml").write_text(text)
    done = rephaze(*args, cwd=tmp_path)
    assert done.returncode == 1
    assert " ".join(done.stderr.split()).startswith(said)
    assert "Traceback" not in done.stderr
    assert not done.stdout
