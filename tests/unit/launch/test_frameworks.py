"""Settings of frameworks read back to the plan they were written from, in the names that their pages have."""

import json
import re
import shlex
import tomllib
from dataclasses import fields
from itertools import product

import pytest

from rephaze.launch.frameworks import FRAMEWORKS
from rephaze.types.full import PipelineSchedule, PlanFamily, Sharding
from rephaze.types.launch import PlanSettings
from tests.kits.launch_plans import plan_of, random_launch

SEEDS = range(200)
ALWAYS_SAID = {"tp", "cp", "dp", "pp", "microbatch"}
"""Settings that multiply to the devices and the batch: no framework may leave one out."""

# Names as the frameworks publish them; the pages are listed in each module's SOURCES.
MEGATRON_FLAGS = {
    "tensor-model-parallel-size",
    "pipeline-model-parallel-size",
    "context-parallel-size",
    "expert-model-parallel-size",
    "expert-tensor-parallel-size",
    "micro-batch-size",
    "global-batch-size",
    "sequence-parallel",
    "seq-length",
    "num-layers",
    "use-tp-pp-dp-mapping",
    "use-distributed-optimizer",
    "num-distributed-optimizer-instances",
    "overlap-grad-reduce",
    "overlap-param-gather",
    "use-megatron-fsdp",
    "data-parallel-sharding-strategy",
    "pipeline-model-parallel-layout",
    "recompute-granularity",
    "recompute-method",
    "recompute-num-layers",
}
TORCHTITAN_KEYS = {
    "training": {"local_batch_size", "global_batch_size", "seq_len"},
    "parallelism": {
        "data_parallel_replicate_degree",
        "data_parallel_shard_degree",
        "fsdp_reshard_after_forward",
        "tensor_parallel_degree",
        "context_parallel_degree",
        "expert_parallel_degree",
        "expert_tensor_parallel_degree",
        "pipeline_parallel_degree",
        "pipeline_parallel_schedule",
        "pipeline_parallel_microbatch_size",
        "module_fqns_per_model_part",
    },
    "activation_checkpoint": {"mode"},
}
DEEPSPEED_KEYS = {
    "train_batch_size",
    "train_micro_batch_size_per_gpu",
    "gradient_accumulation_steps",
    "zero_optimization",
    "tensor_parallel",
    "sequence_parallel_size",
    "pipeline",
    "rephaze",
}
ZERO_KEYS = {"stage", "overlap_comm", "mics_shard_size"}
MAXTEXT_KEYS = {
    *(
        f"ici_{axis}_parallelism"
        for axis in ["data", "pipeline", "fsdp", "context", "tensor", "tensor_sequence", "expert"]
    ),
    *[
        "per_device_batch_size",
        "gradient_accumulation_steps",
        "num_pipeline_microbatches",
        "num_pipeline_repeats",
        "num_layers_per_pipeline_stage",
        "pipeline_fsdp_ag_once",
        "max_target_length",
        "remat_policy",
        "shard_optimizer_over_data",
    ],
}


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
                unsaid & {"etp", "ep", "order", "shard_group", "sharding", "reshard"}
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


def test_names_are_those_the_frameworks_publish():
    for seed in SEEDS:
        launch, _ = random_launch(seed)
        texts = {name: framework.write(launch).text for name, framework in FRAMEWORKS.items()}
        script = texts["megatron"].partition("pretrain_gpt.py \\")[2]
        assert set(re.findall(r"--([\w-]+)", script)) <= MEGATRON_FLAGS
        titan = tomllib.loads(texts["torchtitan"])
        assert titan.keys() == TORCHTITAN_KEYS.keys()
        assert all(titan[section].keys() <= names for section, names in TORCHTITAN_KEYS.items())
        speed = json.loads(texts["deepspeed"])
        assert speed.keys() <= DEEPSPEED_KEYS
        assert speed["zero_optimization"].keys() <= ZERO_KEYS
        rows = [row for row in texts["maxtext"].splitlines() if not row.startswith("#")]
        assert {row.partition(":")[0] for row in rows} <= MAXTEXT_KEYS
        overrides = [row for row in texts["nemo"].splitlines() if not row.startswith("#")]
        names = {row.partition("=")[0].rpartition(".")[2].replace("_", "-") for row in overrides}
        assert names <= MEGATRON_FLAGS | {"num-nodes", "devices", "virtual-pipeline-model-parallel-size"}


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
