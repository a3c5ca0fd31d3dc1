"""Things of one kind by name: each is one file of a room, and registers itself.

The room's modules are imported when a name is first asked for. A thing that lies in no room goes by ``module:name``.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, Protocol, TypeVar

NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")
OUTSIDE = re.compile(r"(?!.*\.py:)[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


class Extension(Protocol):
    """What a registry keeps: who makes it, and its place in lists."""

    @property
    def make(self) -> Callable[..., Any]: ...

    @property
    def place(self) -> float: ...


Kept = TypeVar("Kept", bound=Extension)


class ExtensionError(ValueError):
    """A thing cannot be added or loaded; the message says which, why and what to do."""


class Registry(Mapping[str, Kept]):
    """Things of one kind by name, in the order of their places.

    It is read as a mapping; a thing comes into it by the decorator of its kind alone, which checks it.

    Args:
        kind: what one thing is called in messages.
        decorator: which registers one, as it is written.
        room: the package whose modules register things, with a full stop at its end.
        keep: what is kept of a thing that is given; refuses what is no such thing.

    Raises:
        ExtensionError: if a name is taken or no name, a thing is none of this kind, or it cannot be loaded.
    """

    def __init__(self, kind: str, *, decorator: str, room: str, keep: Callable[[str, Any], Kept]) -> None:
        self.kind, self.decorator = kind, decorator
        self._room, self._keep = room, keep
        self._own: dict[str, Kept] = {}
        self._imported = False

    def names(self) -> list[str]:
        """Return all names."""
        self._import_room()
        return sorted(self._own, key=lambda name: self._own[name].place)

    def find(self, name: str) -> Kept:
        """Return the thing of that name, or of ``module:name``.

        Raises:
            ExtensionError: if there is none, or it cannot be loaded.
        """
        try:
            return self[name]
        except KeyError:
            raise make_unknown_error(self.kind, name, self.names()) from None

    def __getitem__(self, name: str) -> Kept:
        if ":" in name:
            return self._outside(name)
        self._import_room()
        return self._own[name]

    def register(self, name: str, given: Any) -> None:
        """Keep a thing under a name, checked; for the decorator of its kind.

        Raises:
            ExtensionError: if the name is taken or no name, or the thing is none of this kind.
        """
        if not NAME.fullmatch(name):
            raise ExtensionError(
                f"the name of a {self.kind} must be small letters, digits, '-', '_' and '.', as folders are called so; "
                f"got {name!r}"
            )
        entry = self._keep(name, given)
        registered = self._own.get(name)
        if registered is not None and locate(registered) != locate(entry):
            raise ExtensionError(
                f"{self.kind} {name!r} is {locate(registered)} already, and {locate(entry)} asks for the same name; "
                "rename one"
            )
        self._own[name] = entry

    def __setitem__(self, name: str, given: Any) -> None:
        raise TypeError(
            f"{self.kind} {name!r} cannot be assigned, as it would not be checked; register it with {self.decorator}"
        )

    def __contains__(self, name: object) -> bool:
        return name in self.names()

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __len__(self) -> int:
        return len(self.names())

    def _import_room(self) -> None:
        if self._imported:
            return
        self._imported = True  # modules of the room may ask, too, while they are imported
        try:
            package = importlib.import_module(self._room.rstrip("."))
            for module in pkgutil.iter_modules(package.__path__, self._room):
                importlib.import_module(module.name)
        except BaseException:
            self._imported = False
            raise

    def _outside(self, name: str) -> Kept:
        """Return what ``module:name`` is, which no list holds."""
        if not OUTSIDE.fullmatch(name):
            raise ExtensionError(
                f"a {self.kind} of your own is module:name, such as my_file:riddles for riddles in my_file.py of this "
                f"folder, without its end and with full stops for further folders; got {name!r}"
            )
        # A script that is installed does not look here, and python -m does. What is imported may import its neighbours.
        if not {"", folder := str(Path.cwd())} & set(sys.path):
            sys.path.insert(0, folder)
        importlib.invalidate_caches()
        try:
            entry = self._keep(name, EntryPoint(name=name, value=name, group="").load())
        except (Exception, SystemExit) as error:
            reason = str(error) if isinstance(error, ExtensionError) else f"{type(error).__name__}: {error}"
            raise ExtensionError(
                f"{self.kind} {name!r} cannot be loaded: {reason}. It must be module:name, of a module that Python "
                f"finds or a file in this folder, {folder}"
            ) from error
        return next((thing for thing in self._own.values() if thing.make is entry.make), entry)


def make_unknown_error(kind: str, name: str, names: Iterable[str]) -> ExtensionError:
    """Make the error for a name that none of these is."""
    known = ", ".join(map(repr, names))
    return ExtensionError(f"{kind} must be one of {known}, or module:name for one of your own; got {name!r}")


def locate(thing: Any) -> str:
    """Return where the function or class behind a thing is defined, as ``module:name``."""
    made_by = getattr(thing, "make", thing)
    while isinstance(made_by, functools.partial):
        made_by = made_by.func
    return f"{made_by.__module__}:{getattr(made_by, '__qualname__', type(made_by).__qualname__)}"
