"""Lab: questions to an engine's end, and its answers between two steps."""

import asyncio
from typing import Any

from minipaged.serving.messages import Ask, pack


class Asking:
    """Those that wait for an answer. All of it belongs to one event loop."""

    def __init__(self) -> None:
        """Nobody asks."""
        self._waiting: dict[int, asyncio.Future] = {}

    async def ask(self, to: asyncio.WriteTransport, number: int, what: str) -> Any:
        """What the engine's end answers: see `EngineEnd.answers`.

        number: no other message has it. Raises what `fail` is told.
        """
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        to.write(pack(Ask(number, what)))
        try:
            return await answer
        finally:
            del self._waiting[number]

    def hear(self, answers: dict[int, Any]) -> None:
        """They have come; whoever asked may have left."""
        for number, answer in answers.items():
            if number in self._waiting and not self._waiting[number].done():
                self._waiting[number].set_result(answer)

    def fail(self, error: Exception) -> None:
        """No answer will come."""
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(error)
