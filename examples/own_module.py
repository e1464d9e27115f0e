"""A torch module of your own: rephaze extract examples/own_module.py:build --out own.json.gz.

The function takes a microbatch size and returns a module and its inputs; the module's output is the loss.
"""

from typing import Any


def build(microbatch: int) -> tuple[Any, tuple[Any, ...]]:
    """Four equal blocks between an embedding and a head; no weights are made."""
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.norm, self.up, self.down = (
                nn.LayerNorm(width),
                nn.Linear(width, 4 * width),
                nn.Linear(4 * width, width),
            )

        def forward(self, x: Any) -> Any:
            return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(4096, 256)
            self.blocks = nn.ModuleList(Block(256) for _ in range(4))
            self.head = nn.Linear(256, 4096)

        def forward(self, tokens: Any) -> Any:
            x = self.embed(tokens)
            for block in self.blocks:
                x = block(x)
            logits = self.head(x)
            return torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())

    return Net(), (torch.zeros(microbatch, 128, dtype=torch.long),)
