"""The pages of the API reference, made from the public names: what each documents is in its docstring."""

from __future__ import annotations

import enum
import inspect
import pkgutil
from importlib import import_module
from pathlib import Path
from typing import get_args

import unwindkit
import unwindkit.schemas
import unwindkit.testing

# A page for the names whose modules start with one of these words; the first that fits has the name.
GROUPS = {
    "tables": (
        "The table",
        "converters.table converters.rules converters.refusals converters.findings converters.arch",
    ),
    "call-frames": ("Call frame information", "converters.cfi converters.dwarf.expressions converters.assembler"),
    "sframe": ("SFrame", "converters.sframe"),
    "breakpad": ("Breakpad", "converters.breakpad"),
    "lines": ("Lines, look-up tables, macros", "converters.line converters.lookup_tables converters.macro"),
    "debug-info": ("Functions and units", "converters.debug_info converters.dwarf converters.strings"),
    "walking": (
        "Walking",
        "converters.walk jobs.walk_process converters.files.core_modules converters.files.walk_core",
    ),
    "files": (
        "Reading files",
        "converters.elf converters.files converters.limits explanation schemas.section schemas.steps",
    ),
    "jobs": ("Whole jobs", "jobs batches pages writers"),
}
# Modules that no user of records needs.
MACHINERY = ("arguments", "constructs", "data_classes", "derive", "direct", "section", "strategies.declarations")
DIRECTIVES = {"class": ("members",), "module": ("members",)}


def group_of(module: str) -> str:
    """The page of a name that is defined in a module. Raises LookupError if none is for it."""
    for page, (_, words) in GROUPS.items():
        if any(module == word or module.startswith(f"{word}.") for word in words.split()):
            return page
    raise LookupError(f"docs/api.py: no page of the API reference is for names of {module}")


def kind_of(value: object) -> str:
    """The directive of autodoc for a name, without `auto`."""
    if inspect.isclass(value):
        return "exception" if issubclass(value, BaseException) else "class"
    if inspect.ismodule(value):
        return "module"
    return "function" if callable(value) and hasattr(value, "__code__") else "data"


def entry(module: str, name: str, value: object) -> str:
    """What documents one name."""
    kind = kind_of(value)
    options = [f"   :{option}:" for option in DIRECTIVES.get(kind, ())]
    if inspect.isclass(value) and issubclass(value, enum.Enum):
        options = ["   :members:", "   :undoc-members:"]
    if kind == "data":
        return f".. py:data:: {module}.{name}\n\n   {text_of(value)}\n"
    if kind == "module":
        return "\n".join([f".. automodule:: {value.__name__}", *options, ""])  # type: ignore[attr-defined]
    return "\n".join([f".. auto{kind}:: {module}.{name}", *options, ""])


def text_of(value: object) -> str:
    """What stands in place of a docstring, which data has not."""
    values = get_args(value) or list(value)  # type: ignore[call-overload]
    return f"{'One of' if get_args(value) else 'By name:'} {', '.join(f'`{one}`' for one in values)}."


def headed(title: str, text: str) -> str:
    """A page."""
    return f"{title}\n{'=' * len(title)}\n\n{text}\n"


def names_pages() -> dict[str, str]:
    """A page for each group of the names of `unwindkit`."""
    entries: dict[str, list[str]] = {page: [] for page in GROUPS}
    # Functions first.
    for name in sorted(unwindkit.__all__, key=lambda name: (name[0].isupper(), name.lower())):
        home = unwindkit._HOMES[name]
        entries[group_of(home if home != "converters.dwarf" else f"{home}.{name}")].append(
            entry("unwindkit", name, getattr(unwindkit, name))
        )
    return {page: headed(GROUPS[page][0], "\n".join(found)) for page, found in entries.items()}


def module_pages() -> dict[str, str]:
    """`unwindkit.testing`, and a page for each module of `unwindkit.schemas`."""
    pages = {"testing": headed("unwindkit.testing", automodule("unwindkit.testing", members=False) + testing_names())}
    for found in pkgutil.walk_packages(unwindkit.schemas.__path__, "unwindkit.schemas."):
        if found.name.removeprefix("unwindkit.schemas.") in MACHINERY:
            continue
        pages[found.name.removeprefix("unwindkit.")] = headed(found.name, automodule(found.name, not found.ispkg))
    return pages


def automodule(name: str, members: bool) -> str:
    """The text of a module, with what it defines."""
    options = "   :members:\n" * members
    return f".. automodule:: {name}\n{options}\n"


def testing_names() -> str:
    """The names of `unwindkit.testing`."""
    names = unwindkit.testing.__all__
    return "\n".join(entry("unwindkit.testing", name, getattr(unwindkit.testing, name)) for name in names)


def write_pages(folder: Path) -> None:
    """Write all pages, and one that lists them."""
    folder.mkdir()
    names, modules = names_pages(), module_pages()
    for page, text in (names | modules).items():
        (folder / f"{page}.rst").write_text(text, encoding="utf-8")
    lists = [
        "\n".join([f".. toctree::\n   :maxdepth: 1\n   :caption: {caption}\n", *(f"   {page}" for page in pages), ""])
        for caption, pages in (("unwindkit", names), ("Strategies and records", sorted(modules, key=page_order)))
    ]
    (folder / "index.rst").write_text(headed("API reference", "\n".join(lists)), encoding="utf-8")


def page_order(page: str) -> tuple[bool, str]:
    """`unwindkit.testing` before the schemas."""
    return page != "testing", page


def import_all() -> None:
    """Import every module that pages name, so that a fault is shown as it is."""
    for name in module_pages():
        import_module(f"unwindkit.{name}")
