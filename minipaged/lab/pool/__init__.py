"""The block pool in your hands: the widget, its scenes, and the replay of a run."""
