"""Appendix H: several processes in step: rank 0 decides (paper, section 4.6)."""

import pickle
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import RLock
from time import monotonic
from typing import Any, NamedTuple
from weakref import WeakSet

import torch
import torch.distributed as dist

from minipaged.errors import RankFailed, Unpicklable
from minipaged.model.lifeline import Lifeline
from minipaged.model.rank_connections import address_towards, connections
from minipaged.model.said_once import leave_to_rank_0, say_once

_PATIENCE = 5.0  # seconds in which the others meet an error that all must meet


class Call(NamedTuple):
    """Rank 0 wants the others to do this, too."""

    what: str  # all ranks do together
    name: str
    arguments: tuple
    wants_answer: bool = False


class End(NamedTuple):
    """Rank 0 has ended what all ranks do together."""

    what: str
    result: Any = None
    error: BaseException | None = None


class Ranks(Unpicklable):
    """The processes that compute a model together, as one of them sees them.

    All run the same script, and rank 0 decides for all. Before each step, it sends a
    packet to the others: the inputs of the step. At the end, it sends its results. So
    two ranks cannot decide differently.

    Packets have connections of their own. While rank 0 has nothing to do, the others
    wait there, without a time-out.

    Attributes: rank, the number of this process; count, of processes; lifeline;
    runners, which `close` closes first.

    Source: PagedAttention paper, section 4.6, figure 4.
    """

    def __init__(self, store: dist.Store, rank: int, count: int):
        """Connect with the others by a store that all have; all must call this.

        Raises OSError, EOFError or RuntimeError if one of them does not come.
        """
        self.rank = rank
        self.count = count
        here = address_towards(None)
        self._packets = connections(store, "packets", rank, count, [0], here)
        if rank:
            here = address_towards(self._packets[0])
        lines = connections(store, "lifelines", rank, count, range(count), here)
        self.lifeline = Lifeline(rank, lines)
        self._lock = RLock()
        self.runners: WeakSet[Any] = WeakSet()
        if rank:
            say_once(self.lifeline)
        self._what = ""  # is done together now, as rank 0 leads it

    def least(self, number: int) -> int:
        """The least of the numbers with which all ranks call this."""
        numbers: list[int] = [number] * self.count
        dist.all_gather_object(numbers, number)
        return min(numbers)

    def together(
        self,
        what: str,
        decide: Callable[[], Any],
        doing: Mapping[str, Callable[..., Any]],
    ) -> Any:
        """What `decide` returns, or raises, on rank 0; the others do what it tells.

        what: all ranks must be about to do the same. doing: functions by the names that
        `tell` and `ask` send.

        Raises RankFailed if a rank has ended, or if an error has left the ranks out of
        step. Then no rank can go on: they must be started anew.
        """
        if self._lock._is_owned():
            return decide()  # a call inside a call is refused there
        with self._at_work():
            if self.rank:
                return self._follow(what, doing)
            return self._lead(what, decide)

    def close(self) -> None:
        """End what PyTorch runs for the ranks; if that hangs, the lifeline ends all."""
        self.lifeline.works = True
        self.lifeline.waits_since = monotonic()
        try:
            for runner in list(self.runners):  # NCCL waits for the end of its graphs
                runner.close()
            if torch.cuda.is_initialized():
                torch.cuda.synchronize()  # here, a GPU that waits for a dead one hangs
            if dist.is_initialized():
                dist.destroy_process_group()
        finally:
            self.lifeline.works = False
            self.lifeline.waits_since = None

    @contextmanager
    def alike(self, what: str) -> Iterator[None]:
        """Inside, all ranks do the same by themselves: they load a model, say.

        If all of them raise an error, each raises its own. If only some do, RankFailed
        is raised, as by `together`.
        """
        with self._at_work():
            try:
                yield
            except Exception as error:
                if self._agree(what, f"{type(error).__name__}: {error}"):
                    leave_to_rank_0(error)
                raise
            except BaseException as error:  # Ctrl-C
                self.lifeline.fail(f"rank {self.rank}: {type(error).__name__}")
                raise
            self._agree(what, None)

    def _agree(self, what: str, fault: str | None) -> bool:
        """Raise RankFailed if some ranks have a fault, and others have none.

        Returns whether rank 0 has the same fault, and this is another rank.
        """
        others = self._packets.values()
        patience = None if fault is None else _PATIENCE
        with self._or_fail():
            if self.rank:
                self._packets[0].send(fault)
            if not all(other.poll(patience) for other in others):
                self.lifeline.fail(f"rank {self.rank}: {fault}")
                raise RankFailed(self.lifeline.cause)  # they wait in a collective
            if self.rank:
                faults = self._receive(what).result
            else:
                faults = [fault, *(other.recv() for other in others)]
        if not self.rank:
            self._send(End(what, faults))
        reasons = [f"rank {rank}: {text}" for rank, text in enumerate(faults) if text]
        if reasons and None in faults:
            self.lifeline.fail(reasons[0])
            raise RankFailed(self.lifeline.cause)
        return self.rank > 0 and fault == faults[0]

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        """Inside, this rank depends on the others."""
        if self.lifeline.cause is not None:
            raise RankFailed(self.lifeline.cause)
        with self._lock:
            try:
                self.lifeline.works = True
                yield
            finally:
                self.lifeline.works = False

    def _lead(self, what: str, decide: Callable[[], Any]) -> Any:
        self._what = what
        try:
            result = decide()
        except BaseException as error:
            if self.lifeline.cause is None:
                self._send(End(what, error=_picklable(error)))
            raise
        finally:
            self._what = ""
        self._send(End(what, result))
        return result

    def _follow(self, what: str, doing: Mapping[str, Callable[..., Any]]) -> Any:
        with self._or_fail():
            while isinstance(message := self._receive(what), Call):
                answer = None
                try:
                    doing[message.name](*message.arguments)
                except Exception as error:
                    if not message.wants_answer:
                        raise
                    answer = f"rank {self.rank}: {error}"
                if message.wants_answer:
                    self._packets[0].send(answer)
        if message.error is not None:
            raise leave_to_rank_0(message.error)
        return message.result

    def _receive(self, what: str) -> Call | End:
        message = self._packets[0].recv()
        if message.what != what:
            raise ValueError(
                f"rank 0 runs {message.what}, but rank {self.rank} runs {what}; all "
                "ranks must run the same lines"
            )
        return message

    def tell(self, name: str, *arguments: Any) -> None:
        """Rank 0: let all others call the function of this name, too."""
        self._send(Call(self._what, name, arguments))

    def ask(self, name: str) -> None:
        """Rank 0: let all others call it, and wait; ValueError if one of them raises.

        It does nothing on other ranks, and where rank 0 does not lead: in `alike`, each
        rank does so by itself.
        """
        if not (self._lock._is_owned() and self._what):
            return
        self._send(Call(self._what, name, (), wants_answer=True))
        with self.waiting():
            answers = [connection.recv() for connection in self._packets.values()]
        if reasons := list(filter(None, answers)):
            raise ValueError(reasons[0])

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Inside, all ranks are needed, as by a forward: any error leaves them apart.

        It may take no longer than the lifeline's timeout.
        """
        with self._or_fail(), self.watched():
            yield

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Inside, other ranks may be waited for, no longer than the timeout."""
        before = self.lifeline.waits_since
        self.lifeline.waits_since = before or monotonic()
        try:
            yield
        finally:
            self.lifeline.waits_since = before

    def _send(self, message: Call | End) -> None:
        packet = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
        with self._or_fail():
            for connection in self._packets.values():
                connection.send_bytes(packet)

    @contextmanager
    def _or_fail(self) -> Iterator[None]:
        try:
            yield
        except RankFailed:
            raise
        except BaseException as error:
            cause = self.lifeline.cause_of(error)
            if isinstance(error, Exception):
                raise RankFailed(cause) from error
            raise  # Ctrl-C


def _picklable(error: BaseException) -> BaseException:
    """The error, or its text if it cannot be sent."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
