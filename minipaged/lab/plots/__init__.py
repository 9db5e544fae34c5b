"""How each mechanism is drawn, in one palette."""
