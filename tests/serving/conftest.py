"""One server for the tests of a file that need nothing special of it."""

import pytest

from helpers.http_serving import served


@pytest.fixture(scope="module")
def server():
    with served(names=("pocket", "other")) as one:
        yield one


@pytest.fixture(autouse=True)
def nothing_is_left(request):
    yield
    if "server" in request.fixturenames:
        request.getfixturevalue("server").wait_idle()
