"""Ways to break a table: a cell, a row, a column, its bytes."""

import random

from tests.fuzz.mutations import DIGITS, NUMBERS, Mutant, break_bytes, is_absurd

CELLS = ("x", "1.5", "", "\uff11", "1_0", "0x10", "\x1b[31m", "nan", "true", " ", "-4", "inf", "1e400", "[/x]")
NO_NUMBERS = {"x", "\uff11", "1_0", "0x10", "\x1b[31m", "nan", "true", "-4", "inf", "1e400", "[/x]"}
"""Of those, what no column of numbers can take."""
NOTES = (
    "ETP=x", "ETP=0", "3 of 0 layers", "zero1 group 0", "dp=0 DCN", "hsdp=0x0", "chunk", "chunk x", "chunk 0",
    "q_lora=x kv_lora=0 qk=1+1 v=1", "dense_layers=99999999999", "shared_expert_ffn=\u0663", "local batch 0",
    "capacity factor 1e9", "schedule=zb", "remat custom: ", "sliding window", "MLA", *DIGITS,
)  # fmt: skip
"""What words of a table are looked into for, or nearly so."""
TEXTS = {
    "source", "model", "recompute", "chip", "measured_metric", "unit", "precision", "notes", "status", "tied",
    "zero", "seq_parallel", "interleave", "score", "kv_heads", "head_dim", "value",
}  # fmt: skip
"""Columns whose words are looked for, or that take words beside numbers."""


def break_csv(rng: random.Random, text: str) -> Mutant:
    """One change to a table without quotes."""
    rows = [line.split(",") for line in text.splitlines()]
    at, cell = rng.randrange(len(rows)), rng.randrange(len(rows[0]))
    has_words = rows[0][cell] in TEXTS
    way = rng.choice(("cell", "cell", "number", "number", "more", "twice", "less", "bytes", "quote", "rows"))
    if way == "bytes":
        return Mutant(*break_bytes(rng, text.encode()))
    if way == "cell":
        rows[at][cell] = put = rng.choice(NOTES if has_words and rng.random() < 0.5 else CELLS)
        is_nonsense = bool(at and put in NO_NUMBERS and not has_words)
    elif way == "number":
        put = rng.choice(NUMBERS)
        rows[at][cell] = str(put)
        is_nonsense = at > 0 and is_absurd(put) and not has_words
    elif way == "more":
        rows[at].append("77")
        is_nonsense = True
    elif way == "twice":
        rows = [[*row, row[cell]] for row in rows]
        is_nonsense = True
    elif way == "less":
        rows[at].pop()
        is_nonsense = True
    elif way == "rows":
        rows += [list(rng.choice(rows[1:])) for _ in range(rng.choice((1, 30)))]
        is_nonsense = False
    else:
        rows[at][cell] = '"' + rows[at][cell]
        is_nonsense = True
    return Mutant("\n".join(",".join(row) for row in rows) + "\n", f"{way} {at},{cell}", is_nonsense)
