"""The optimal spread of a model's layers over a cluster."""
