"""Lab: errors of a server, as the objects that OpenAI's clients know."""

from typing import Any

TYPES = {
    400: "BadRequestError",
    401: "AuthenticationError",
    404: "NotFoundError",
    405: "MethodNotAllowedError",
    408: "RequestTimeoutError",
    413: "RequestTooLargeError",
    429: "RateLimitError",
    499: "ClientClosedRequestError",
    500: "InternalServerError",
    503: "ServiceUnavailableError",
    504: "TimeoutError",
}


class ApiError(Exception):
    """A request that is answered with an error.

    Attributes: status, of HTTP; message; param, the field at fault, if it is one;
    headers, of the response.
    """

    def __init__(
        self,
        status: int,
        message: str,
        param: str | None = None,
        headers: dict[str, str] | None = None,
    ):
        super().__init__(message)
        self.status, self.headers = status, headers
        # They may quote the client, and so hold half a letter.
        self.message = message.encode(errors="replace").decode()
        self.param = param and param.encode(errors="replace").decode()

    @property
    def body(self) -> dict[str, Any]:
        """What clients read: OpenAI's names, with vLLM's types and codes."""
        return {
            "error": {
                "message": self.message,
                "type": TYPES.get(self.status, "Error"),
                "param": self.param,
                "code": self.status,
            }
        }


def bad(message: str, param: str | None = None) -> ApiError:
    """The client's mistake."""
    return ApiError(400, message, param)


def internal(error: BaseException) -> ApiError:
    """Ours; the details stay in the server's log."""
    return ApiError(500, f"the server failed ({type(error).__name__}); see its log")
