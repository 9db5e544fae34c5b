"""The bridge to HuggingFace models."""
