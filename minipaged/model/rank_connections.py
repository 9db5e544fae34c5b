"""Appendix H: connections between ranks, which the system closes if a rank dies."""

import os
import pickle
import socket
from collections.abc import Collection
from multiprocessing.connection import (
    Client,
    Connection,
    answer_challenge,
    deliver_challenge,
)
from secrets import token_bytes

import torch.distributed as dist

PATIENCE = 120.0  # seconds from the first rank that comes to the last


def connections(
    store: dist.Store,
    name: str,
    rank: int,
    count: int,
    hosts: Collection[int],
    address: str,
) -> dict[int, Connection]:
    """Connections with the hosts of a lower rank, and, if this is one, with all higher.

    So `hosts=[0]` connects all with rank 0, and `range(count)` all with each other.
    address: of this machine. store: where all ranks find the hosts.

    Raises OSError, EOFError or RuntimeError if a rank does not come.
    """
    found: dict[int, Connection] = {}
    for host in hosts:
        key = f"minipaged {name} {host}"
        if host < rank:
            place, password = pickle.loads(store.get(key))
            found[host] = Client(place, authkey=password)
            send_at_once(found[host])
            found[host].send(rank)
        elif host == rank:
            for connection in _accepted(store, key, count - 1 - rank, address):
                found[connection.recv()] = connection
    return dict(sorted(found.items()))


def _accepted(
    store: dist.Store, key: str, number: int, address: str
) -> list[Connection]:
    """Invite the others, and wait for so many."""
    password = token_bytes()
    found = []
    with socket.create_server((address, 0), backlog=number) as listener:
        listener.settimeout(PATIENCE)
        store.set(key, pickle.dumps((listener.getsockname(), password)))
        for _ in range(number):
            accepted, _ = listener.accept()
            accepted.setblocking(True)
            connection = Connection(accepted.detach())
            send_at_once(connection)
            deliver_challenge(connection, password)
            answer_challenge(connection, password)
            found.append(connection)
    return found


def send_at_once(connection: Connection) -> None:
    """Let the system send each packet at once, not only once the last was confirmed."""
    with socket.socket(fileno=os.dup(connection.fileno())) as line:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def address_towards(other: Connection | None) -> str:
    """This machine's address, as the other one sees it; that of rank 0 is known."""
    if other is None:
        return os.environ.get("MASTER_ADDR", "localhost")
    with socket.socket(fileno=os.dup(other.fileno())) as line:
        return line.getsockname()[0]
