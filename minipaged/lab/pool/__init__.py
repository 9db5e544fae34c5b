"""A real block pool to play with: the widget, its scenes, and the replay of a run."""
