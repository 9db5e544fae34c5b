"""What leads through a lesson: show the source, predict, see it break, prove."""
