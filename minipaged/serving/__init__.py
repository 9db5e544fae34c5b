"""A server with OpenAI's interface over one Engine."""
