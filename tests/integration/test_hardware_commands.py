"""The hardware commands as a user runs them."""

import json

import pytest

from tests.kits.command import rephaze


def test_space_of_the_paper_as_json():
    done = rephaze("space", "--scenario", "paper", "--json")
    found = json.loads(done.stdout)
    assert done.returncode == 0
    assert (found["num_designs"], found["num_grid_points"]) == (29_360, 75_712)
    assert found["area_limit_um2"] == pytest.approx(278_826_676.31, abs=0.01)


def test_space_shows_a_histogram_to_people():
    done = rephaze("space", "--scenario", "paper")
    assert "29,360" in done.stdout
    assert "█" in done.stdout


def test_area_prints_one_json_line_a_chip(tmp_path):
    path = tmp_path / "designs.csv"
    header = "num_tensor_cores,num_vector_cores,width,depth,global_buffer_bytes\n"
    path.write_text(header + "8,2,128,128,134217728\n1,1,2,2,2097152\n")
    done = rephaze("area", str(path), "--model", "paper", "--json")
    areas = [json.loads(line)["area_um2"] for line in done.stdout.splitlines()]
    assert areas[0] == pytest.approx(278_826_676.31, abs=0.01)
    assert len(areas) == 2
    assert "total" in rephaze("area", str(path)).stdout


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("num_tensor_cores\n8\n", "column num_vector_cores is missing"),
        ("num_tensor_cores,num_vector_cores,width,depth,global_buffer_bytes\n", "holds no chips"),
        ("num_tensor_cores,num_vector_cores,width,depth,global_buffer_bytes\n8,2,-1,8,1\n", "width is -1"),
        (
            "num_tensor_cores,num_vector_cores,width,depth,global_buffer_bytes\n8,x,1,8,1\n",
            "num_vector_cores is 'x'",
        ),
    ],
)
def test_area_refuses_a_bad_file_in_one_line(tmp_path, text, said):
    path = tmp_path / "designs.csv"
    path.write_text(text)
    done = rephaze("area", str(path))
    assert done.returncode == 1
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert "Traceback" not in done.stderr


def test_chips_lists_shows_and_refuses():
    assert "gaudi3" in rephaze("chips").stdout
    assert "cloud.google.com" in rephaze("chips", "tpuv4").stdout
    listed = [json.loads(line) for line in rephaze("chips", "--json").stdout.splitlines()]
    assert len(listed) == 23
    assert json.loads(rephaze("chips", "tpuv4", "--json").stdout)["figures"]["clock_hz"]["value"] == 1.05e9
    done = rephaze("chips", "tpu4")
    assert done.returncode == 1
    assert "did you mean 'tpuv4'" in done.stderr


def test_a_chip_file_is_shown_with_its_area(tmp_path):
    (tmp_path / "mine.toml").write_text('base = "tpuv4"\nnum_tensor_cores = 4\n')
    found = json.loads(rephaze("chips", "mine.toml", "--json", cwd=tmp_path).stdout)
    assert found["num_tensor_cores"] == 4
    assert found["area_um2"]["corrected"] > 0


def test_usage_errors_exit_2():
    assert rephaze("space", "--bogus").returncode == 2
    assert rephaze("nonsense").returncode == 2
    assert "rephaze 0." in rephaze("--version").stdout


def test_a_space_with_nothing_in_it_exits_3(tmp_path):
    from rephaze.hardware.sourced_data import files

    text = files("rephaze.hardware").joinpath("data", "scenarios", "paper.toml").read_text("utf-8")
    kept = [line for line in text.splitlines() if not line.startswith("area_limit_design")]
    (tmp_path / "tiny.toml").write_text("\n".join(kept).replace("[space]", "[space]\narea_limit_um2 = 10.0"))
    done = rephaze("space", "--scenario", "tiny.toml", cwd=tmp_path)
    assert done.returncode == 3
    assert "No design keeps to the limits" in done.stdout
