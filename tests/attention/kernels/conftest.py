from helpers.interpreter import language_is_exchanged_once  # noqa: F401
