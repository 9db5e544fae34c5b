"""Lab: a front: HTTP, the tokenizer and texts, in an actor of Ray Serve."""

from argparse import Namespace

from fastapi import FastAPI
from ray.serve.handle import DeploymentHandle

from minipaged.serving.command import build
from minipaged.serving.ray.replicas import Replicas


class Front:
    """The server's own app, over all replicas in place of one engine."""

    def __init__(self, given: Namespace, replicas: DeploymentHandle):
        """The app is built when a replica is there."""
        self._given, self._replicas = given, replicas

    async def __serve_build_asgi_app__(self) -> FastAPI:
        """Called by Serve."""
        about = await self._replicas.about.remote()
        most = self._given.max_replicas or self._given.replicas
        about = about._replace(max_sequences=most * about.max_sequences)
        self._given.pool_page = False  # it would show one pool
        return build(self._given, Replicas(self._replicas, about))
