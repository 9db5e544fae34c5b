"""Replicas of a server on Ray Serve, and a router that knows prefixes."""
