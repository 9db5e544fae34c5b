"""Lab: pictures as scenes, and how they become HTML; standard library alone."""
