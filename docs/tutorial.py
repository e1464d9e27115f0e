# %% [markdown]
# # Tutorial
#
# From a `config.json` to a plan that can be launched, and from a question to a chip. Everything runs in a minute or two on a laptop, without a
# GPU; `make docs` runs it and writes this page and a notebook. Files named here are in `examples/`.

# %%
import tempfile
from pathlib import Path

import rephaze

examples, work = Path("examples"), Path(tempfile.mkdtemp())

# %% [markdown]
# ## A model
#
# A Hugging Face `config.json` becomes a graph of one training step: no weights, no network (extra `[extract]`). The seventeen models of
# `rephaze models` ship as graphs already.

# %%
model = rephaze.extract(examples / "own-model.json", seq_len=512, out=work / "own.json.gz")
print(model.summary)

# %% [markdown]
# What is covered for it?

# %%
print(rephaze.support(work / "own.json.gz"))

# %% [markdown]
# ## A plan
#
# The fastest way to spread it over eight chips of a kind, proven: degrees, stages, sharding, schedule, what to recompute.

# %%
scenario = examples / "own-scenario.toml"
placed = rephaze.place_model(work / "own.json.gz", "tpuv4", scenario=scenario)
print(placed)

# %% [markdown]
# Why not tensor parallelism? The best plan with it, and where it loses:

# %%
asked = rephaze.place_model(work / "own.json.gz", "tpuv4", scenario=scenario, why="tp=2")
print(asked.alternative.text)

# %% [markdown]
# ## Launch it
#
# Settings for the framework; what it cannot be told is said.

# %%
settings = rephaze.export_plan(placed, "torchtitan", work / "job.toml")
print(settings.text)
print("not said:", settings.notes)

# %% [markdown]
# And a trace of the pipeline and of the chip's cores, for ui.perfetto.dev:

# %%
trace = rephaze.export_plan(placed, "perfetto", work / "trace.json")
print(f"{(work / 'trace.json').stat().st_size:,} bytes")

# %% [markdown]
# ## A chip
#
# The question the other way round: of the chips of a space, which one trains this model fastest, each with its own best plan? The answer
# comes with its certificate.

# %%
found = rephaze.explore(str(work / "own.json.gz"), scenario=scenario, store=work / "run")
print(found)

# %% [markdown]
# How far is a chip of one's own from it?

# %%
print(rephaze.judge_chip(work / "run", examples / "own-chip.toml"))

# %% [markdown]
# The run is recorded: page, tables, verification by independent evaluators.

# %%
run = rephaze.open_run(work / "run")
print(run.verify(sample=1))
print(run.report(work / "report.html").name, "written")
