"""Who computes what, and in which blocks; no torch."""
