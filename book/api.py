"""Pages of the package's public names, one for each floor, from their docstrings.

Nothing of the package is imported: griffe reads the files, so that types and defaults
stand there as they are written, and torch need not be installed.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import griffe

from book.names import public_names

ROOT = Path(__file__).parent.parent
LISTED = re.compile(r"^  (\w+)/ +(.+)$", re.MULTILINE)
COMMENT = re.compile(r"  # (.+)$")
FENCE = ":"
MODULE = ["```{py:currentmodule} minipaged", "```", ""]


def floors(readme: str) -> dict[str, str]:
    """The package's folders and what each is for, as the README lists them."""
    return dict(LISTED.findall(readme))


def pages(readme: str) -> dict[str, str]:
    """A page of Markdown for each floor that has public names, by the floor's name.

    What lies in no folder, the errors, is on the page "errors".
    """
    package = griffe.load("minipaged", search_paths=[str(ROOT)])
    on_floors: dict[str, list[str]] = {}
    for name in public_names():
        found = package[name].final_target
        floor = found.path.split(".")[1]
        on_floors.setdefault(floor, []).append("\n".join(definition(name, found)))
    about = floors(readme) | {"errors": "what is raised, and what to do about it"}
    return {
        floor: "\n".join(
            [f"# {floor}", "", _sentence(about[floor]), "", *MODULE, *texts]
        )
        for floor in about
        if (texts := on_floors.get(floor))
    }


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}."


def definition(name: str, found: griffe.Object) -> list[str]:
    """One public name as Markdown, with the members of a class."""
    path = found.relative_filepath.as_posix() if found.filepath else ""
    lines = [f"## {name}", ""]
    options = [f":canonical: {found.path}", *_types(found)]
    lines += directive(_kind(found), _head(name, found), *options)
    lines += [*told(found), f"Defined in [{path}](/{path}).", ""]
    if found.is_class:
        for member in members(found):
            head = _head(member.name, member)
            lines += directive(_kind(member), head, *_types(member), level=1)
            lines += [*told(member), FENCE * 4, ""]
    return [*lines, FENCE * 5, ""]


def directive(kind: str, head: str, *options: str, level: int = 0) -> list[str]:
    """The opening of a directive of Sphinx's domain of Python names."""
    return [f"{FENCE * (5 - level)}{{py:{kind}}} {head}", *options, ""]


def _kind(found: griffe.Object) -> str:
    if found.is_class:
        bases = {str(base) for base in found.bases}
        return "exception" if any(base.endswith("Error") for base in bases) else "class"
    if found.is_function:
        return "method" if found.parent and found.parent.is_class else "function"
    is_property = "property" in found.labels
    return (
        "property" if is_property else "attribute" if found.parent.is_class else "data"
    )


def _head(name: str, found: griffe.Object) -> str:
    """The signature; of what is no function, the type."""
    if found.is_function:
        result = f" -> {found.returns}" if found.returns else ""
        return f"{name}({signature(found.parameters)}){result}"
    if found.is_class:
        return f"{name}({signature(_fields(found))})"
    return name


def _types(found: griffe.Object) -> list[str]:
    """Options of the directive: the type of an attribute, the value of a name."""
    if not found.is_attribute:
        return []
    lines = [f":type: {found.annotation}"] if found.annotation else []
    is_name = found.parent.is_module and found.value
    return [*lines, f":value: {found.value}"] if is_name else lines


def signature(parameters: Iterable[griffe.Parameter]) -> str:
    """As in the source, but without self: "num_blocks: int, *, device: str = 'cpu'"."""
    parts, is_bare = [], True
    for each in parameters:
        if each.name in ("self", "cls"):
            continue
        stars = {"variadic positional": "*", "variadic keyword": "**"}
        star = stars.get(each.kind.value, "") if each.kind else ""
        if each.kind and each.kind.value == "keyword-only" and is_bare:
            parts.append("*")
            is_bare = False
        is_bare = is_bare and star != "*"
        type_ = f": {each.annotation}" if each.annotation else ""
        equals = " = " if type_ else "="
        default = f"{equals}{each.default}" if each.default and not star else ""
        parts.append(f"{star}{each.name.lstrip('*')}{type_}{default}")
    return ", ".join(parts)


def _fields(found: griffe.Class) -> list[griffe.Parameter]:
    """What a class is called with; of a NamedTuple, its fields."""
    if "NamedTuple" not in map(str, found.bases):
        return [each for each in found.parameters if not each.name.startswith("_")]
    return [
        griffe.Parameter(each.name, annotation=each.annotation, default=each.value)
        for each in found.attributes.values()
        if each.annotation
    ]


def members(found: griffe.Class) -> Iterator[griffe.Object]:
    """Public methods and properties, and fields that a comment explains."""
    for member in found.members.values():
        if member.name.startswith("_") or member.is_alias:
            continue
        if member.docstring or (member.is_attribute and remark(member)):
            yield member


def remark(found: griffe.Attribute) -> str:
    """The comment beside a field in the source: its shape or its unit."""
    lines = found.filepath.read_text("utf-8").splitlines()
    beside = COMMENT.search(lines[found.lineno - 1])
    return beside[1] if beside and found.annotation else ""


def told(found: griffe.Object) -> list[str]:
    """The docstring as Markdown, that of a class with its __init__'s."""
    lines = []
    if found.is_attribute and (beside := remark(found)):
        lines += [f"{beside[0].upper()}{beside[1:]}", ""]
    for docstring in (found.docstring, _init(found) or _called(found)):
        if docstring:
            for section in docstring.parse("google", warnings=False):
                lines += _section(section)
    return lines


def _init(found: griffe.Object) -> griffe.Docstring | None:
    init = found.members.get("__init__") if found.is_class else None
    return init.docstring if init else None


def _called(found: griffe.Object) -> griffe.Docstring | None:
    """Of a name such as `streamed_attention = Backend(attend, ...)`: what it calls."""
    value = found.value if found.is_attribute else None
    if not isinstance(value, griffe.ExprCall) or not found.parent.is_module:
        return None
    called = found.parent.members.get(str(value.arguments[0]))
    return called.docstring if called else None


def _section(section: griffe.DocstringSection) -> list[str]:
    if section.kind is griffe.DocstringSectionKind.parameters:
        lines = []
        for each in section.value:
            words = " ".join(each.description.split())
            lines.append(f"- `{each.name}`: {words}")
        return [*lines, ""]
    if section.kind is griffe.DocstringSectionKind.text:
        return [section.value, ""]
    title = section.title or section.kind.value.capitalize()
    return [f"{title}: {section.value}", ""]
