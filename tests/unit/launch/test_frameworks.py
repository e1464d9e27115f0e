"""Settings of frameworks read back to the plan they were written from, in the names that their pages have."""

import json
import re
import shlex
import tomllib
from dataclasses import fields
from itertools import product
from pathlib import Path

import pytest

from rephaze.launch.frameworks import FRAMEWORKS
from rephaze.types.full import PipelineSchedule, PlanFamily, Sharding
from rephaze.types.launch import PlanSettings
from tests.kits.launch_plans import plan_of, random_launch

SEEDS = range(200)
ALWAYS_SAID = {"tp", "cp", "dp", "pp", "microbatch"}
"""Settings that multiply to the devices and the batch: no framework may leave one out."""

NAMES = tomllib.loads((Path(__file__).parents[2] / "data" / "framework-names.toml").read_text("utf-8"))
"""Names and words as the frameworks publish them, with the pages they are from."""


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_settings_read_back_but_for_what_is_told(name):
    framework, told, same = FRAMEWORKS[name], 0, 0
    for family, seed in product(PlanFamily, SEEDS):
        launch, _ = random_launch(seed, family)
        file = framework.write(launch)
        found = framework.read(file.text, launch.line)
        unsaid = {note.field for note in file.unsaid if note.field}
        for field in fields(PlanSettings):
            if field.name not in unsaid:
                here, there = (getattr(one, field.name) for one in (launch.settings, found))
                assert here == there, f"seed {seed}: {field.name}"
        assert not unsaid & ALWAYS_SAID
        assert found.num_devices == launch.settings.num_devices
        told += bool(unsaid)
        same += not unsaid
    assert told, "some plan has something that the framework cannot be told"
    assert same, "some plan can be told whole"


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("megatron", PlanFamily.MEGATRON),
        ("nemo", PlanFamily.MEGATRON),
        ("torchtitan", PlanFamily.TORCHTITAN),
        ("maxtext", PlanFamily.MAXTEXT),
    ],
)
def test_plans_of_a_frameworks_own_family_come_back_whole(name, family):
    framework, whole = FRAMEWORKS[name], 0
    for seed in SEEDS:
        launch, plan = random_launch(seed, family, has_part_recompute=False)
        file = framework.write(launch)
        unsaid = {note.field for note in file.unsaid if note.field}
        if unsaid - {"recompute"}:
            own = launch.settings
            is_known = own.schedule is PipelineSchedule.ZERO_BUBBLE
            is_known |= name == "torchtitan" and bool(unsaid & {"sp", "sharding", "shard_group"})
            is_known |= name == "torchtitan" and own.etp not in (1, own.tp)
            is_known |= name == "maxtext" and bool(
                unsaid & {"etp", "ep", "order", "shard_group", "sharding", "reshard", "global_batch"}
            )
            assert is_known, f"seed {seed}: {unsaid}"
            continue
        whole += 1
        assert plan_of(framework.read(file.text, launch.line), launch.line) == plan, f"seed {seed}"
    assert whole > len(SEEDS) / 10


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_what_is_told_to_be_unsaid_is(name):
    """A note about a setting that reads back all the same would only frighten."""
    for seed in SEEDS:
        launch, _ = random_launch(seed)
        file = FRAMEWORKS[name].write(launch)
        found = FRAMEWORKS[name].read(file.text, launch.line)
        for note in file.unsaid:
            # An order that is neither of the two reads back as one of them.
            if note.field and "copies outside" not in note.text:
                assert getattr(found, note.field) != getattr(launch.settings, note.field), f"seed {seed}: {note}"


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_notes_stand_in_the_file_and_names_end_no_comment(name):
    for seed in SEEDS:
        launch, _ = random_launch(seed)
        file = FRAMEWORKS[name].write(launch)
        for note in file.unsaid:
            assert note.text in file.text.replace('\\"', '"'), note
        if name != "deepspeed":
            assert not any(line.startswith("lines;") for line in file.text.splitlines())
        if name == "megatron":
            assert "rm" not in shlex.split(file.text.replace("\\\n", " "), comments=True)


def _flat(found, before=""):
    """Values by their names, with those of the sections above them."""
    for name, value in found.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield before + name, value


def written(name, text):
    """What a launch file sets, as the framework's own parser would see it."""
    if name == "torchtitan":
        return dict(_flat(tomllib.loads(text)))
    if name == "deepspeed":
        return dict(_flat({key: value for key, value in json.loads(text).items() if key != "rephaze"}))
    if name == "megatron":
        words = shlex.split(text.partition("pretrain_gpt.py \\")[2].replace("\\\n", " "))
        flags = [at for at, word in enumerate(words) if word.startswith("--")]
        return {words[at][2:]: None if at + 1 in flags else words[at + 1] for at in flags}
    cut = ": " if name == "maxtext" else "="
    return dict(row.split(cut, 1) for row in text.splitlines() if not row.startswith("#"))


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_names_and_words_are_those_the_frameworks_publish(name):
    known, seen = NAMES[name], set()
    for family, seed in product(PlanFamily, SEEDS):
        launch, _ = random_launch(seed, family)
        found = written(name, FRAMEWORKS[name].write(launch).text)
        assert found.keys() <= set(known["names"])
        seen |= found.keys()
        for setting, words in known["values"].items():
            assert found.get(setting, words[0]) in words, setting
    # A name that is never written would be a list grown old.
    assert seen == set(known["names"])
    assert known["values"].keys() <= seen
    assert all(source.startswith("https://") for source in known["sources"])


def test_what_a_framework_refuses_to_start_is_not_written():
    """Rules that their own checks have, beyond names."""
    for family, seed in product(PlanFamily, SEEDS):
        launch, _ = random_launch(seed, family)
        own = launch.settings
        files = {name: framework.write(launch) for name, framework in FRAMEWORKS.items()}
        found = {name: written(name, file.text) for name, file in files.items()}
        # Megatron-FSDP takes one format of checkpoints, in both.
        is_fsdp = "use-megatron-fsdp" in found["megatron"]
        assert (found["megatron"].get("ckpt-format") == "fsdp_dtensor") == is_fsdp
        assert (found["nemo"].get("trainer.strategy.save_ckpt_format") == "fsdp_dtensor") == is_fsdp
        is_exported = "export CUDA_DEVICE_MAX_CONNECTIONS=1" in files["megatron"].text.splitlines()
        assert is_exported == (own.tp * own.cp > 1 and not is_fsdp)
        has_warning = any("no sequence parallelism" in note.text for note in files["megatron"].unsaid)
        assert has_warning == (own.ep * own.etp > 1 and own.tp > 1 and not own.sp)
        # NeMo's strategy has the last word about the stages.
        assert "model.config.pipeline_model_parallel_layout" not in found["nemo"]
        # Experts of torchtitan are spread over devices that share shards.
        titan = tomllib.loads(files["torchtitan"].text)["parallelism"]
        ep, etp = titan["expert_parallel_degree"], titan["expert_tensor_parallel_degree"]
        shards = titan["data_parallel_shard_degree"] * titan["context_parallel_degree"]
        assert ep == 1 or (shards * titan["tensor_parallel_degree"]) % (ep * etp) == 0
        assert etp in (1, titan["tensor_parallel_degree"])
        # AutoTP goes with ZeRO 0, 1 and 2; pipelines with 0 and 1.
        speed = json.loads(files["deepspeed"].text)
        most = 1 if own.pp > 1 else 2 if own.tp > 1 else 3
        assert speed["zero_optimization"]["stage"] <= most
        # MaxText's pipelines run whole rounds.
        if own.pp > 1:
            assert int(found["maxtext"]["num_pipeline_microbatches"]) % own.pp == 0


def test_axes_and_processes_multiply_to_the_devices():
    for seed in SEEDS:
        launch, plan = random_launch(seed)
        script = FRAMEWORKS["megatron"].write(launch).text
        nodes, each = re.search(r"--nnodes (\d+) --nproc-per-node (\d+)", script).groups()
        assert int(nodes) * int(each) == plan.num_devices
        total = 1
        for size in re.findall(r"^ici_\w+_parallelism: (\d+)", FRAMEWORKS["maxtext"].write(launch).text, re.M):
            total *= int(size)
        assert total == plan.num_devices
        titan = tomllib.loads(FRAMEWORKS["torchtitan"].write(launch).text)["parallelism"]
        degrees = (
            "data_parallel_replicate",
            "data_parallel_shard",
            "tensor_parallel",
            "context_parallel",
            "pipeline_parallel",
        )
        total = 1
        for degree in degrees:
            total *= titan[f"{degree}_degree"]
        assert total == plan.num_devices
        speed = json.loads(FRAMEWORKS["deepspeed"].write(launch).text)
        steps, micro = speed["gradient_accumulation_steps"], speed["train_micro_batch_size_per_gpu"]
        assert steps * micro * plan.dp == speed["train_batch_size"]


def test_the_draws_have_every_decision():
    plans = [random_launch(seed)[1] for seed in SEEDS]
    assert {plan.sharding for plan in plans} == set(Sharding)
    assert {plan.schedule for plan in plans} == set(PipelineSchedule)
    assert {plan.reshard for plan in plans} == {False, True}
    assert any(1 < plan.shard_group < plan.num_replicas for plan in plans)
