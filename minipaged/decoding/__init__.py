"""What is generated: fork, append and free are enough."""
