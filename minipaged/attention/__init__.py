"""How K and V are read: same signature, interchangeable."""
