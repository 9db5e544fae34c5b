"""The real scheduler, with a cost model in place of the model; no torch."""
