"""Which kinds of model can be extracted, and are the numbers right? The table of docs/workloads.md.

Kinds are listed in ``benchmarks/data/extracted_families.toml``; configs are the library's own, made short. Each is
extracted in a process of its own, and torch's own counter and hooks look at the same step of the whole module::

    python benchmarks/extracted_families.py                      # all of them, then the table: half an hour or so
    python benchmarks/extracted_families.py llava whisper        # these again; the others stay as they were found
    python benchmarks/extracted_families.py --table              # the table of what was found last

What was found is kept in ``benchmarks/data/extracted_families.jsonl``.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import select
import signal
import sys
import time
import tomllib
import traceback
from contextlib import ExitStack
from pathlib import Path
from typing import Any

DATA = Path(__file__).with_name("data") / "extracted_families"
PAGE = Path(__file__).parents[1] / "docs" / "workloads.md"
MARKS = ("<!-- families: written by benchmarks/extracted_families.py -->", "<!-- end of families -->")
MICROBATCH = 2
USUAL_SEQ_LEN = 256
NUM_BLOCKS = 2
MAX_S, MAX_BYTES = 60.0, 4 << 30
"""Processor seconds and memory of one extraction."""
TOLERANCE = 1e-3
LAYER_COUNTS = (
    "num_hidden_layers",
    "n_layer",
    "n_layers",
    "num_layers",
    "encoder_layers",
    "decoder_layers",
    "num_decoder_layers",
)
Found = dict[str, Any]


def main() -> None:
    facts = tomllib.loads(DATA.with_suffix(".toml").read_text())
    kinds = [kind for group in facts["groups"].values() for kind in group]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("kind", nargs="*", help="as transformers calls it; default: all")
    parser.add_argument("--table", action="store_true", help="run nothing, write the table of what was found last")
    parser.add_argument("--missing", action="store_true", help="run those that were not found yet")
    asked = parser.parse_args()
    if unknown := set(asked.kind) - set(kinds):
        parser.error(f"{', '.join(sorted(unknown))}: not in {DATA.name}.toml")
    found = read_found()
    todo = asked.kind or ([] if asked.table else kinds)
    if asked.missing:
        todo = [kind for kind in kinds if kind not in found]
    if todo:
        warm_up()
    for kind in todo:
        one = in_own_process(kind, facts.get("set", {}).get(kind, {}))
        found = {**read_found(), kind: one}
        print(line_of(one), flush=True)
        write_found([found[one] for one in kinds if one in found])
    write_table(facts["groups"], found)


def read_found() -> dict[str, Found]:
    path = DATA.with_suffix(".jsonl")
    lines = path.read_text().splitlines() if path.exists() else []
    return {one["kind"]: one for one in map(json.loads, lines)}


def write_found(found: list[Found]) -> None:
    DATA.with_suffix(".jsonl").write_text("".join(json.dumps(one) + "\n" for one in found))


def warm_up() -> None:
    """Import what all of them need, so that processes start from there."""
    import torch

    from rephaze.workload.extract.extraction import extract_config

    torch.set_num_threads(1)
    tiny = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    extract_config({"model_type": "llama", "vocab_size": 128, **tiny}, name="tiny", seq_len=8)


def in_own_process(kind: str, given: dict[str, Any]) -> Found:
    """What is found of one kind; a process that dies or takes too long is found, too."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        try:
            os.write(write, json.dumps(examine(kind, given)).encode())
        finally:
            os._exit(0)
    os.close(write)
    text = b""
    # Other processes may hold the machine: the wall clock is only there to end what hangs.
    if select.select([read], [], [], 20 * MAX_S)[0]:
        while part := os.read(read, 1 << 16):
            text += part
    else:
        os.kill(child, signal.SIGKILL)
    os.close(read)
    os.waitpid(child, 0)
    return json.loads(text) if text else {"kind": kind, "status": "died"}


def examine(kind: str, given: dict[str, Any]) -> Found:
    """Extract a kind of model, then count the same step with torch's own tools."""
    from rephaze.errors import RephazeError, SpecError
    from rephaze.workload.extract.extraction import extract_config

    found: Found = {"kind": kind}
    seq_len, dtype = given.get("seq_len", USUAL_SEQ_LEN), given.get("dtype", "bfloat16")
    try:
        config = short_config(kind, given)
    except Exception as error:  # noqa: BLE001 - the library's own default is no model
        return {**found, "status": "refused", "why": f"no default config: {error}"}
    began = resource.getrusage(resource.RUSAGE_SELF)
    began_s = time.perf_counter()
    try:
        try:
            graph = extract_config(config, name=kind, seq_len=seq_len, attention="eager", dtype=dtype)
        except SpecError as error:
            if "has positions for" not in str(error):
                raise
            seq_len = None  # the longest it takes is shorter
            graph = extract_config(config, name=kind, seq_len=seq_len, attention="eager", dtype=dtype)
    except RephazeError as error:
        return {**found, "status": "refused", "why": str(error), **taken(began, began_s)}
    except Exception:  # noqa: BLE001 - a crash is a finding
        return {**found, "status": "crashed", "why": traceback.format_exc()[-2000:], **taken(began, began_s)}
    found.update(taken(began, began_s))
    layers = [graph.layer_types[number] for number in graph.layer_type_of]
    found["num_parameters"] = graph.num_parameters
    found["num_parameters_of_layers"] = sum(layer.num_parameters for layer in layers)
    found["forward"] = sum(op.num_flops.at(MICROBATCH) for layer in layers for op in layer.forward.ops)
    found["backward"] = sum(op.num_flops.at(MICROBATCH) for layer in layers for op in layer.backward.ops)
    found["saved_bytes"] = sum((one.saved_bytes + one.saved_input_bytes).at(MICROBATCH) for one in layers)
    found["num_layer_types"] = len(graph.layer_types)
    try:
        found.update(count(config, kind, seq_len, dtype))
    except Exception:  # noqa: BLE001 - a finding, too
        return {**found, "status": "not counted", "why": traceback.format_exc()[-2000:]}
    found["status"] = "extracted" if is_right(found) else "differs"
    return found


def taken(began: Any, began_s: float) -> Found:
    now = resource.getrusage(resource.RUSAGE_SELF)
    cpu_s = now.ru_utime + now.ru_stime - began.ru_utime - began.ru_stime
    wall_s = time.perf_counter() - began_s
    return {"cpu_s": round(cpu_s, 2), "wall_s": round(wall_s, 2), "peak_bytes": now.ru_maxrss << 10}


def is_right(found: Found) -> bool:
    """Whether parameters are exact, and FLOPs within the tolerance of the counter, forward and backward."""
    return (
        found["num_parameters"] == found["counted_parameters"] == found["num_parameters_of_layers"]
        and abs(share(found, "forward")) <= TOLERANCE
        and abs(share(found, "backward")) <= TOLERANCE
    )


def share(found: Found, what: str) -> float:
    """How much more is in the graph than was counted, as a share of it."""
    counted = found[f"counted_{what}"]
    return found[what] / counted - 1 if counted else float(found[what] != 0)


def short_config(kind: str, given: dict[str, Any]) -> dict[str, Any]:
    """The library's default config of a kind with few blocks, as its ``config.json`` has it."""
    from transformers import CONFIG_MAPPING

    chosen = given.get("config", {})
    settings = CONFIG_MAPPING[kind](**chosen)
    shorter = {} if given.get("whole") else merged(fewer_blocks(settings), chosen)
    if shorter:
        settings = CONFIG_MAPPING[kind](**shorter)
    config: dict[str, Any] = json.loads(settings.to_json_string())
    if "architecture" in given:
        config["architectures"] = [given["architecture"]]
    return config


def fewer_blocks(settings: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key in LAYER_COUNTS:
        value = vars(settings).get(key)
        if isinstance(value, int) and value > NUM_BLOCKS:
            found[key] = NUM_BLOCKS
    for key in getattr(settings, "sub_configs", {}):
        part = getattr(settings, key, None)
        below = fewer_blocks(part) if part is not None else {}
        if below:
            found[key] = {"model_type": part.model_type, **below}
    return found


def merged(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Both, the second first; parts are merged in turn."""
    out = {**first, **second}
    for key in set(first) & set(second):
        if isinstance(first[key], dict) and isinstance(second[key], dict):
            out[key] = merged(first[key], second[key])
    return out


def count(config: dict[str, Any], kind: str, seq_len: int | None, dtype: str) -> Found:
    """Parameters, FLOPs and kept bytes of one step of the whole module, by torch's counter and hooks."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    from rephaze.workload.extract.config_source import source_from_config
    from rephaze.workload.extract.hugging_face import plain_masks, quiet_library
    from rephaze.workload.extract.known_values import watching
    from rephaze.workload.extract.record import loss_of
    from rephaze.workload.extract.scans import loops_as_scans
    from rephaze.workload.extract.substitutes import substitutes

    with quiet_library(), plain_masks():
        source = source_from_config(config, name=kind, seq_len=seq_len, dtype=dtype, attention="eager")
    module, inputs = source.module.train(), source.inputs_at(MICROBATCH)
    assert isinstance(inputs, dict)
    plain, corrected = FlopCounterMode(display=False), FlopCounterMode(display=False, custom_mapping=corrections())
    owned = {t.untyped_storage()._cdata for t in (*module.parameters(), *module.buffers())}
    owned |= {t.untyped_storage()._cdata for t in inputs.values() if isinstance(t, torch.Tensor)}
    kept: dict[int, int] = {}
    alive: list[Any] = []

    def keep(tensor: Any) -> Any:
        storage = tensor.untyped_storage()
        if storage._cdata not in owned:
            kept[storage._cdata] = storage.nbytes()
            alive.append(tensor)
        return tensor

    hooks = torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor)
    found: Found = {"counted_parameters": sum(p.numel() for p in module.parameters())}
    replaced = (quiet_library(), plain_masks(), loops_as_scans(module), substitutes("eager", source.known))
    with ExitStack() as stack:
        for context in (*replaced, watching(source.known), hooks):
            stack.enter_context(context)
        with torch.device("meta"), corrected, plain:
            loss = loss_of(module(**inputs))
        found["counted_forward"], found["plain_forward"] = totals(corrected, plain)
        with corrected, plain:
            loss.backward()
        found["counted_backward"], found["plain_backward"] = totals(corrected, plain)
    return {**found, "hooked_bytes": sum(kept.values())}


def totals(*counters: Any) -> list[int]:
    return [counter.get_total_flops() for counter in counters]


def corrections() -> dict[Any, Any]:
    """Formulas the counter lacks, or has wrong; docs/workloads.md says which and why."""
    import torch
    from torch.utils.flop_counter import conv_flop_count

    def convolution_backward(grad: Any, image: Any, weight: Any, *rest: Any, **_: Any) -> int:
        is_transposed, wanted = rest[4], rest[7]
        once = conv_flop_count(image, weight, grad, is_transposed)
        return once * (bool(wanted[0]) + bool(wanted[1]))

    def grouped(left: Any, right: Any, *_: Any, **__: Any) -> int:
        # Tokens by experts' weights, or the weights' gradient: tokens by tokens.
        return 2 * left[0] * left[1] * right[-1]

    def triangular(_matrix: Any, right: Any, *_: Any, **__: Any) -> int:
        *batch, rows, columns = right
        total = rows * rows * columns
        for size in batch:
            total *= size
        return total

    aten = torch.ops.aten
    return {
        aten.convolution_backward: convolution_backward,
        aten._grouped_mm: grouped,
        aten.linalg_solve_triangular: triangular,
    }


def line_of(found: Found) -> str:
    if found["status"] not in ("extracted", "differs"):
        return f"{found['kind']}: {found['status']}: {found.get('why', '')[-700:]}"
    return (
        f"{found['kind']}: {found['status']}, {found['num_parameters']:,} parameters "
        f"({found['num_parameters'] - found['counted_parameters']:+,}, "
        f"layers {found['num_parameters_of_layers'] - found['num_parameters']:+,}), "
        f"forward {share(found, 'forward'):+.4%}, backward {share(found, 'backward'):+.4%}, "
        f"kept {found['saved_bytes'] / max(found['hooked_bytes'], 1) - 1:+.2%}, "
        f"{found['cpu_s']} s of {found['wall_s']}"
    )


def write_table(groups: dict[str, list[str]], found: dict[str, Found]) -> None:
    """Put the table between its marks in the page."""
    before, rest = PAGE.read_text().split(MARKS[0])
    after = rest.split(MARKS[1])[1]
    PAGE.write_text(f"{before}{MARKS[0]}\n\n{table_of(groups, found)}\n{MARKS[1]}{after}")


def table_of(groups: dict[str, list[str]], found: dict[str, Found]) -> str:
    rows = [found[kind] for group in groups.values() for kind in group if kind in found]
    good = [one for one in rows if one["status"] == "extracted"]
    most = max((one["cpu_s"] for one in good), default=0.0), max((one["peak_bytes"] for one in good), default=0)
    lines = [
        f"{len(good)} of {len(rows)} kinds extract with exact parameters and FLOPs within 0.1 % of the counter, "
        "each in at most "
        f"{most[0]:.0f} processor seconds and {most[1] / (1 << 30):.1f} GiB.",
        "",
        "| kind | parameters | forward | backward | kept bytes |",
        "|---|---|---|---|---|",
    ]
    for name, group in groups.items():
        lines.append(f"| **{name}** | | | | |")
        lines += [row_of(found[kind]) for kind in group if kind in found and found[kind]["status"] == "extracted"]
    lines += ["", "Refused, or not within that:", ""]
    lines += [f"- {one['kind']}: {reason(one)}" for one in rows if one["status"] != "extracted"]
    return "\n".join(lines) + "\n"


def row_of(found: Found) -> str:
    cells = [found["kind"], f"{found['num_parameters']:,}"]
    cells += [percent(share(found, what)) + plain_note(found, what) for what in ("forward", "backward")]
    hooked = found["hooked_bytes"]
    cells.append(percent(found["saved_bytes"] / hooked - 1) if hooked else "none")
    return f"| {' | '.join(cells)} |"


def percent(value: float) -> str:
    return "0" if abs(value) < 5e-6 else f"{signed_percent(value)} %"


def signed_percent(value: float) -> str:
    """Two digits, and no power of ten where the counter saw a fifth of the products."""
    from rephaze.types.readable import rounded_amount

    return ("+" if value > 0 else "") + rounded_amount(100 * value, 2)


def plain_note(found: Found, what: str) -> str:
    """What the counter says without corrections, where that differs."""
    plain, counted = found[f"plain_{what}"], found[f"counted_{what}"]
    return f" (plain {signed_percent(found[what] / plain - 1)} %)" if plain and plain != counted else ""


def reason(found: Found) -> str:
    if found["status"] == "differs":
        text = f"forward {percent(share(found, 'forward'))}, backward {percent(share(found, 'backward'))}"
        missing = found["num_parameters_of_layers"] - found["num_parameters"]
        return text + (f", parameters of layers {missing:+,}" if missing else "")
    return found.get("why", found["status"]).strip().splitlines()[-1].replace("`", "").replace("<", "&lt;")


if __name__ == "__main__":
    sys.exit(main())
