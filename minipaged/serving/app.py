"""Lab: the app: endpoints of OpenAI and vLLM over one Engine."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response
from transformers import PreTrainedTokenizerBase

from minipaged.engine.engine import Engine
from minipaged.serving.errors import ApiError, internal
from minipaged.serving.events import Events, unless_left
from minipaged.serving.forms import ChatForm, CompletionForm, Form
from minipaged.serving.hosts import EngineInThread, Host
from minipaged.serving.job import Job
from minipaged.serving.limits import Door, Gate, Keys, Limits
from minipaged.serving.link import Link
from minipaged.serving.metrics import Metrics
from minipaged.serving.pool_page import add_pool_page
from minipaged.serving.pool_watch import PoolWatch
from minipaged.serving.protocol import (
    KINDS,
    MUST_BE,
    REFUSED,
    ChatRequest,
    CompletionRequest,
    DetokenizeRequest,
    Generating,
    TokenizeRequest,
)
from minipaged.serving.requests import Question, Reader
from minipaged.serving.text import NamingDecoder

_SHORT = 2000  # bytes of a body whose text is read at once, not in a thread


class Front:
    """What all requests share: the engine, the tokenizer, names, limits."""

    def __init__(
        self,
        link: Link,
        tokenizer: PreTrainedTokenizerBase,
        names: Sequence[str],
        max_model_len: int,
        limits: Limits,
        metrics: Metrics,
    ):
        """See `make_app`."""
        self.link, self.names, self.limits = link, names, limits
        self.metrics, about = metrics, link.about
        self.reader = Reader(
            about.generation_config, tokenizer, max_model_len, about.num_embeddings
        )
        self.decoder = NamingDecoder(tokenizer)
        self.door = Door(about.max_sequences + limits.max_queue)

    def name_of(self, asked: str | None) -> str:
        """The model's name in an answer; ApiError if another one is asked for."""
        if asked is None:
            return self.names[0]
        if asked not in self.names:
            raise ApiError(
                404, f"this server has no model {asked!r:.60}, but {self.names[0]!r}"
            )
        return asked

    async def answer(
        self,
        request: Request,
        asked: Generating,
        form: type[Form],
        read: Callable[[Any], list[Question]],
    ) -> Response:
        """A response, or the beginning of a stream."""
        made = form(asked, self.name_of(asked.model), self.decoder)
        job = Job(
            self.link, self.decoder, self.door, asked, request.state.salt,
            self.metrics, self.limits,
        )  # fmt: skip
        try:
            is_short = len(await request.body()) <= _SHORT or not asked.has_text
            # A long text takes long, and so does a new stop string.
            if is_short and not asked.stop:
                job.read(lambda: read(asked))
            else:
                reading = asyncio.to_thread(job.read, lambda: read(asked))
                await unless_left(request.receive, reading)
            job.hand_in()  # before the loop turns to the next of many requests
            await unless_left(request.receive, job.accepted())
            if asked.stream:
                return Events(job, made, asked.stream_options)
            pieces = await unless_left(request.receive, job.whole())
            body = made.whole(pieces, job.usage)
        except BaseException:
            job.leave()
            raise
        job.leave()
        return JSONResponse(body)


def make_app(
    engine: Engine | Host,
    tokenizer: PreTrainedTokenizerBase,
    names: Sequence[str],
    *,
    max_model_len: int,
    api_keys: Sequence[str] = (),
    limits: Limits | None = None,
    pool_page: bool = True,
) -> FastAPI:
    """The app over an engine, which it serves while it runs, and closes at its end.

    Args:
        engine: with `tokenizer`, for stop strings; it gets a thread, or lives in
            another host already.
        names: of the model; the first one is told.
        max_model_len: tokens of a prompt with its answer.
        api_keys: without them, everybody may ask.
        pool_page: show the block pool at /pool.
    """
    limits = limits or Limits()
    metrics = Metrics(names[0])
    link = Link(
        EngineInThread(engine) if isinstance(engine, Engine) else engine, metrics
    )
    front = Front(link, tokenizer, names, max_model_len, limits, metrics)

    @asynccontextmanager
    async def serving(_app: FastAPI) -> AsyncIterator[None]:
        await link.open()
        yield
        await link.close()

    app = FastAPI(title="minipaged", lifespan=serving, docs_url=None, redoc_url=None)
    app.state.link, app.state.door = link, front.door
    app.add_middleware(Gate, keys=Keys(api_keys), limits=limits)
    _add_errors(app)
    created = int(time.time())

    def card(name: str) -> dict[str, Any]:
        return {
            "id": name,
            "object": "model",
            "created": created,
            "owned_by": "minipaged",
            "root": names[0],
            "parent": None,
            "max_model_len": max_model_len,
        }

    @app.get("/health")
    async def health() -> Response:
        return Response(status_code=200 if link.is_up else 503)

    @app.get("/v1/models")
    async def models() -> JSONResponse:
        return JSONResponse({"object": "list", "data": [card(name) for name in names]})

    @app.get("/v1/models/{name:path}")
    async def model(name: str) -> JSONResponse:
        return JSONResponse(card(front.name_of(name)))

    @app.post("/v1/completions")
    async def completions(asked: CompletionRequest, request: Request) -> Response:
        return await front.answer(
            request, asked, CompletionForm, front.reader.completion
        )

    @app.post("/v1/chat/completions")
    async def chat(asked: ChatRequest, request: Request) -> Response:
        return await front.answer(request, asked, ChatForm, front.reader.chat)

    @app.post("/tokenize")
    async def tokenize(asked: TokenizeRequest) -> JSONResponse:
        front.name_of(asked.model)
        tokens = await asyncio.to_thread(front.reader.tokens_to_show, asked)
        body = {"count": len(tokens), "max_model_len": max_model_len, "tokens": tokens}
        if asked.return_token_strs:
            body["token_strs"] = tokenizer.convert_ids_to_tokens(tokens)
        return JSONResponse(body)

    @app.post("/detokenize")
    async def detokenize(asked: DetokenizeRequest) -> JSONResponse:
        front.name_of(asked.model)
        text = await asyncio.to_thread(front.reader.text_of, asked.tokens)
        return JSONResponse({"prompt": text})

    @app.get("/metrics")
    async def show_metrics() -> Response:
        page = metrics.page(await link.ask("figures"))
        return Response(page, media_type=metrics.content_type)

    if pool_page:
        watch = app.state.pool_watch = PoolWatch(
            lambda: link.ask("pool"), lambda: link.tell("nobody watches")
        )
        add_pool_page(app, watch, names[0], link.about, needs_key=bool(api_keys))
    return app


def _add_errors(app: FastAPI) -> None:
    """Whatever is raised is answered with an error object."""

    def answer(error: ApiError) -> JSONResponse:
        return JSONResponse(error.body, error.status, error.headers)

    @app.exception_handler(ApiError)
    async def api_error(_request: Request, error: ApiError) -> Response:
        return answer(error)

    @app.exception_handler(HTTPException)
    async def http_error(_request: Request, error: HTTPException) -> Response:
        headers = dict(error.headers or {})
        return answer(ApiError(error.status_code, str(error.detail), headers=headers))

    @app.exception_handler(RequestValidationError)
    async def malformed(_request: Request, error: RequestValidationError) -> Response:
        return answer(_first_fault(error))

    @app.exception_handler(ClientDisconnect)
    async def left(_request: Request, _error: ClientDisconnect) -> Response:
        return Response(status_code=499)  # nobody reads it

    @app.exception_handler(Exception)
    async def failed(_request: Request, error: Exception) -> Response:
        return answer(internal(error))


def _first_fault(error: RequestValidationError) -> ApiError:
    """The first field at fault, and what is wrong with it."""
    faults = error.errors()
    # Of a field with several types, pydantic tells for each why the value is not it.
    fault = next((one for one in faults if one["type"] == "value_error"), faults[0])
    if fault["type"] == "json_invalid":
        return ApiError(400, "the body is not valid JSON")
    place = [str(part)[:60] for part in fault["loc"][1:] if part not in KINDS]
    if not place and isinstance(fault["input"], bytes):  # it was not read as JSON
        return ApiError(
            400, "send the body as JSON, with the header Content-Type: application/json"
        )
    if not place and fault["type"] in ("missing", "model_attributes_type"):
        return ApiError(400, "the body must be a JSON object")
    param = place[0] if place else None
    message = f"{'.'.join(place) or 'body'}: {fault['msg']}"
    if fault["type"] == "extra_forbidden" and len(place) == 1:
        if param in REFUSED:
            message = f"{param} is not supported: {REFUSED[param].why}"
        else:
            message = f"{param} is no field that this server knows"
    for number, name in enumerate(place[:-1], 1):
        if name in MUST_BE:  # next comes pydantic's name of a type
            field = ".".join(place[:number])
            message = f"{field} {MUST_BE[name]}"
            if fault["type"] == "value_error":
                message = f"{field}: {fault['msg']}"
    return ApiError(400, message, param)
