"""What is measured, on what, and how."""
