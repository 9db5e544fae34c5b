"""Start a module as `python -m` does, without the slowest of what it imports.

What reads a notebook's file imports jsonschema, and that imports rfc3987_syntax: this
builds a grammar for each part of a web address, and takes longer than all the rest.
jsonschema goes on without it, and then leaves values of one kind ("iri") unchecked. A
notebook has none.
"""

import sys

_START = """\
import runpy, sys
sys.modules["rfc3987_syntax"] = None  # who imports it gets an ImportError
runpy.run_module("{}", run_name="__main__", alter_sys=True)"""


def python_m(module: str) -> list[str]:
    """A command; the module's own arguments come after it."""
    return [sys.executable, "-c", _START.format(module)]
