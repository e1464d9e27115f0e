"""From a torch module to the graph of its training step; the only part that needs torch."""
