"""Lesson 6: the kernels, and what decides how they are launched."""
