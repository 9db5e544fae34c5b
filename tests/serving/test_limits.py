"""Keys, sizes, times, and the end of the queue."""

import time

import httpx
import pytest

from helpers.http_serving import FRANCE, make_engine, served, wait_until
from minipaged.serving.errors import ApiError
from minipaged.serving.limits import Door, Keys, Limits
from serving.test_leaving import LONG, Steps, raw


def bearer(key):
    return {"headers": {"Authorization": f"Bearer {key}"}}


def test_without_a_key_nothing_but_health_is_told():
    with served(api_keys=("one", "two")) as server:
        body = {"prompt": FRANCE, "max_tokens": 1}
        for path in ("/v1/completions", "/tokenize", "/v1/nothing"):
            status, error = server.error(path, body)
            assert status == 401 and error["type"] == "AuthenticationError"
        for key in ("On", "onee", "one two", "Bearer one"):
            assert (
                server.post("/v1/completions", body, **bearer(key)).status_code == 401
            )
        for key in ("one", "two"):
            assert (
                server.post("/v1/completions", body, **bearer(key)).status_code == 200
            )
        assert httpx.get(server.url + "/metrics").status_code == 401
        assert httpx.get(server.url + "/health").status_code == 200


def test_users_of_different_keys_share_no_blocks():
    with served(api_keys=("one", "two")) as server:
        body = {"prompt": "My secret hat is red. " * 12, "max_tokens": 1}

        def cached(key, **fields):
            answer = server.post("/v1/completions", body | fields, **bearer(key))
            return answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"]

        assert cached("one") == 0 < cached("one")
        assert cached("two") == 0 < cached("two")
        # Nor by a salt that looks like another's.
        assert cached("two", cache_salt="one") == 0
        assert cached("one", cache_salt="x") == 0 < cached("one", cache_salt="x")


def test_salts_depend_on_key_and_nothing_else():
    keys = Keys(["a", "b"])
    assert (
        keys.salt_of("Bearer a") == keys.salt_of("Bearer a") != keys.salt_of("Bearer b")
    )
    assert Keys([]).salt_of("Bearer a") == b""
    with pytest.raises(ApiError):
        keys.salt_of("")


def test_a_body_must_not_be_too_large():
    with served(limits=Limits(max_body_bytes=2000)) as server:
        status, error = server.error("/v1/completions", {"prompt": "a" * 3000})
        assert status == 413 and "2000 bytes" in error["message"]
        # Without a length that is told before, in pieces.
        pieces = (b'{"prompt": "' + b"a" * 1500 for _ in range(3))
        headers = {"Content-Type": "application/json"}
        answer = httpx.post(
            server.url + "/v1/completions", content=pieces, headers=headers, timeout=30
        )
        assert answer.status_code == 413
        assert server.complete("a" * 1500, max_tokens=1)


def test_a_body_must_come_in_time():
    with served(limits=Limits(body_seconds=0.2)) as server:
        connection = raw(server.port, "/v1/completions", b'{"prompt"', length=50)
        start = time.monotonic()
        assert b" 408 " in connection.recv(1000).splitlines()[0]
        assert time.monotonic() - start < 5
        connection.close()


def test_a_queue_has_an_end():
    engine = make_engine(600, max_sequences=1, observers=[Steps()])
    with served(engine, limits=Limits(max_queue=2)) as server:
        fields = {"prompt": FRANCE, **LONG, "stream": True}
        inside = [raw(server.port, "/v1/completions", fields) for _ in range(3)]
        wait_until(lambda: len(engine.streams) == 3)
        answer = server.post("/v1/completions", {"prompt": FRANCE})
        assert answer.status_code == 429 and answer.headers["Retry-After"] == "1"
        assert answer.json()["error"]["type"] == "RateLimitError"
        inside.pop().close()
        wait_until(lambda: len(engine.streams) == 2)
        inside.append(raw(server.port, "/v1/completions", fields))
        wait_until(lambda: len(engine.streams) == 3)
        for connection in inside:
            connection.close()
        server.wait_idle()
        status, error = server.error("/v1/completions", {"prompt": FRANCE, "n": 4})
        assert status == 400 and "lower n" in error["message"]  # it can never be
        assert server.complete(n=3, max_tokens=2)["choices"]  # the door has counted


def test_a_door_counts_in_and_out():
    door = Door(3)
    door.admit(2)
    with pytest.raises(ApiError) as refused:
        door.admit(2)
    assert refused.value.status == 429 and door.inside == 2
    door.leave(2)
    door.admit(3)
    with pytest.raises(ApiError) as refused:
        door.admit(4)
    assert refused.value.status == 400
