"""An attacker on the proofs of a search: it tries to refute every claim by means that share no bound with it."""
