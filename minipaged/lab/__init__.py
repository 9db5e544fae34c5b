"""What the notebooks draw and check; nothing in the package imports it."""
