"""Extension points: things of one kind by name, ours and those of other packages.

A thing is added by one file. Ours lie in a room of this package and register themselves; the room's modules are
imported when a name is first asked for. Another package names its things by entry points, which are loaded when they
are asked for or listed. One that lies in no package goes by ``module:name``.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
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


class ExtensionWarning(UserWarning):
    """A list leaves out what an installed package names; the message says why."""


class Registry(Mapping[str, Kept]):
    """Things of one kind by name: ours in the order of their places, then those of other packages by name.

    It is read as a mapping; a thing comes into it by the decorator of its kind alone, which checks it.

    A list of all leaves out what cannot be loaded, with an :class:`ExtensionWarning`.

    Args:
        kind: what one thing is called in messages.
        decorator: which registers one, as it is written.
        room: of ours, with a full stop at the end: the beginning of its modules' names.
        group: entry points of other packages.
        keep: what is kept of a thing that is given; refuses what is no such thing.

    Raises:
        ExtensionError: if a name is taken or no name, a thing is none of this kind, or it cannot be loaded.
    """

    def __init__(self, kind: str, *, decorator: str, room: str, group: str, keep: Callable[[str, Any], Kept]) -> None:
        self.kind, self.decorator, self.group = kind, decorator, group
        self._room, self._keep = room, keep
        self._own: dict[str, Kept] = {}
        self._loaded: set[EntryPoint] = set()
        self._imported = False

    def names(self) -> list[str]:
        """All names; other packages are not loaded."""
        self._import_room()
        return list_names(sorted(self._own, key=lambda name: self._own[name].place), self.group)

    def find(self, name: str) -> Kept:
        """The thing of that name, or of ``module:name``.

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
        entries = _named_by_packages(self.group, tuple(sys.path)).get(name, [])
        if not entries and name not in self._own:
            _named_by_packages.cache_clear()  # a package may have been installed since
            entries = _named_by_packages(self.group, tuple(sys.path)).get(name, [])
        for entry in entries:
            self._load(entry)
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
        kept = self._keep(name, given)
        there = self._own.get(name)
        if there is not None and locate(there) != locate(kept):
            raise ExtensionError(
                f"{self.kind} {name!r} is {locate(there)} already, and {locate(kept)} asks for the same name; rename "
                "one"
            )
        self._own[name] = kept

    def __setitem__(self, name: str, given: Any) -> None:
        raise TypeError(
            f"{self.kind} {name!r} cannot be assigned, as it would not be checked; register it with {self.decorator}"
        )

    def __contains__(self, name: object) -> bool:
        return name in self.names()

    def __iter__(self) -> Iterator[str]:
        for name in self.names():
            try:
                self[name]
            except ExtensionError as error:
                warnings.warn(str(error), ExtensionWarning, stacklevel=2)
            else:
                yield name

    def __len__(self) -> int:
        return sum(1 for _ in self)

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

    def _load(self, entry: EntryPoint) -> None:
        """Load what a package names, and keep it."""
        if entry in self._loaded:
            return
        try:
            kept = self._keep(entry.name, entry.load())
            # Its file may have registered it, with more to say, when it was imported.
            there = self._own.get(entry.name)
            if there is None or locate(there) != locate(kept):
                self.register(entry.name, kept)
        except Exception as error:
            package = entry.dist
            said = "" if package is None else f" of {package.name} {package.version}"
            way = "" if package is None else f", or uninstall it: pip uninstall {package.name}"
            raise ExtensionError(
                f"{self.kind} {entry.name!r}, entry point {entry.value!r}{said}, cannot be loaded: {_reason(error)}. "
                f"Mend that package{way}"
            ) from error
        self._loaded.add(entry)

    def _outside(self, name: str) -> Kept:
        """What ``module:name`` is, which no list holds."""
        if not OUTSIDE.fullmatch(name):
            raise ExtensionError(
                f"a {self.kind} of your own is module:name, such as my_file:riddles for riddles in my_file.py of this "
                f"folder, without its end and with full stops for further folders; got {name!r}"
            )
        # A script that is installed does not look here, and python -m does. What is imported may import its neighbours.
        if not {"", here := str(Path.cwd())} & set(sys.path):
            sys.path.insert(0, here)
        importlib.invalidate_caches()
        try:
            kept = self._keep(name, EntryPoint(name=name, value=name, group=self.group).load())
        except (Exception, SystemExit) as error:
            raise ExtensionError(
                f"{self.kind} {name!r} cannot be loaded: {_reason(error)}. It must be module:name, of a module that "
                f"Python finds or a file in this folder, {here}"
            ) from error
        return next((there for there in self._own.values() if there.make is kept.make), kept)


def make_unknown_error(kind: str, name: str, names: Iterable[str]) -> ExtensionError:
    """What to raise of a name that none of these is."""
    known = ", ".join(map(repr, names))
    return ExtensionError(f"{kind} must be one of {known}, or module:name for one of your own; got {name!r}")


def locate(thing: Any) -> str:
    """Where the function or class behind a thing is defined, ``module:name``."""
    made_by = getattr(thing, "make", thing)
    while isinstance(made_by, functools.partial):
        made_by = made_by.func
    return f"{made_by.__module__}:{getattr(made_by, '__qualname__', type(made_by).__qualname__)}"


def _reason(error: BaseException) -> str:
    return str(error) if isinstance(error, ExtensionError) else f"{type(error).__name__}: {error}"


@functools.cache
def _named_by_packages(group: str, path: tuple[str, ...]) -> dict[str, list[EntryPoint]]:
    """Entry points of the packages that are installed on a search path, by name."""
    found: dict[str, list[EntryPoint]] = {}
    for entry in entry_points(group=group):
        found.setdefault(entry.name, []).append(entry)
    return found


def list_names(own: Sequence[str], group: str) -> list[str]:
    """Names of ours, and of other packages by their entry points of a group, found without importing any."""
    return list(dict.fromkeys([*own, *sorted(_named_by_packages(group, tuple(sys.path)))]))
