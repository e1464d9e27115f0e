"""From a torch or Hugging Face model to the sharded operator graph of its training step."""
