"""Lab: the application of Ray Serve: fronts, replicas, and the router between them."""

from argparse import Namespace
from typing import Any

import ray
from ray import serve
from ray.serve import Application
from ray.serve.config import RequestRouterConfig

from minipaged.serving.ray.command import parser
from minipaged.serving.ray.front import Front
from minipaged.serving.ray.replica import Replica
from minipaged.serving.ray.router import PolicyRouter


def application(given: Namespace) -> Application:
    """What the flags describe."""
    replicas = serve.deployment(Replica).options(
        max_ongoing_requests=2 * given.max_num_seqs,  # so that none waits for a request
        ray_actor_options=_resources(given),
        request_router_config=RequestRouterConfig(
            request_router_class=PolicyRouter,
            request_router_kwargs=_policy(given),
        ),
        health_check_period_s=2,
        graceful_shutdown_timeout_s=given.shutdown_timeout,
        logging_config={"enable_access_log": False},  # as in the server
        **_how_many(given),
    )
    front = serve.deployment(serve.ingress()(Front)).options(
        num_replicas=given.fronts,
        max_ongoing_requests=1 << 16,  # the app itself refuses what is too much
        ray_actor_options={"num_cpus": 0},
        graceful_shutdown_timeout_s=given.shutdown_timeout,
        logging_config={"enable_access_log": False},  # as in the server
    )
    return front.bind(given, replicas.bind(given))


def build(args: dict[str, Any]) -> Application:
    """For a config file of Serve: `args` has the flags, with `_` for `-`.

    For example, {"model": "pocket", "router": "prefix", "replicas": 2}.
    """
    flags = []
    for name, value in args.items():
        flag = "--" + name.replace("_", "-")
        if name == "model":
            flags.append(str(value))
        elif isinstance(value, bool):
            flags.append(flag if value else flag.replace("--", "--no-", 1))
        else:
            flags += [flag, *map(str, value if isinstance(value, list) else [value])]
    return application(parser().parse_args(flags))


def _resources(given: Namespace) -> dict[str, Any]:
    """Of a replica. Its ranks share the model, a GPU each."""
    num_gpus = given.gpus_per_replica
    if num_gpus is None and ray.cluster_resources().get("GPU"):
        num_gpus = given.tensor_parallel_size
    if num_gpus:
        return {"num_gpus": num_gpus}
    return {"num_cpus": given.cpus_per_replica}


def _policy(given: Namespace) -> dict[str, Any]:
    if given.router != "prefix":
        return {"policy": given.router}
    options = {"policy": "prefix", "factor": given.factor, "spare": given.spare}
    if given.num_blocks:  # of which a replica holds no more
        options["capacity"] = given.num_blocks
    return options


def _how_many(given: Namespace) -> dict[str, Any]:
    if given.max_replicas is None:
        return {"num_replicas": given.replicas}
    return {
        "autoscaling_config": {
            "min_replicas": given.replicas,
            "max_replicas": given.max_replicas,
            "target_ongoing_requests": given.target_ongoing_requests,
        }
    }
