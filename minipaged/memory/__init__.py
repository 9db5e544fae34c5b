"""Where K and V live."""
