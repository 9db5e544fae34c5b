"""The package's public names, and where a text's code means one of them."""

import re

from book.sources import ROOT

NAME = re.compile(r"(mp\.|minipaged\.)?(\w+)((?:\.\w+)?)(?:\(.*\))?", re.DOTALL)


def public_names() -> list[str]:
    """Those that `__init__.pyi` imports."""
    stub = (ROOT / "minipaged" / "__init__.pyi").read_text("utf-8")
    return re.findall(r"^from \.\S+ import \w+ as (\w+)$", stub, re.MULTILINE)


def meant(code: str) -> str | None:
    """What a piece of code in a text names, or None.

    `mp.BlockTable.append(3)` and `BlockTable.append` are "BlockTable.append". Of names
    in small letters only `mp.generate`: `step` and `load` may be anything.
    """
    match = NAME.fullmatch(code)
    if not match or match[2] not in public_names():
        return None
    return match[2] + match[3] if match[1] or match[2][0].isupper() else None
