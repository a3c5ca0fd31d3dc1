"""Repositories on the Hugging Face hub, as folders of files: read from one commit, and filled by one commit.

They are of the kind that the hub calls a dataset. Its own library does the work; what goes wrong is said here.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

PREFIX = "hf://"
NAME = re.compile(r"[\w.-]+/[\w.-]+")
# What the hub itself puts into a new repository.
OWN_FILES = {".gitattributes"}
LOGIN = "run `hf auth login`, or set HF_TOKEN, with a token that may write"


@dataclass(frozen=True, kw_only=True)
class Repository:
    """A repository at one commit.

    Attributes:
        name: ``owner/name``.
        revision: commit, branch or tag; by default the newest commit of the main branch.
    """

    name: str
    revision: str | None = None

    def fetch(self, file: str) -> Path:
        """One of its files, in the hub's cache on this machine.

        Raises:
            FileNotFoundError: if there is no such commit or file.
            PermissionError: if there is no such repository, or no access to it, which the hub does not tell apart.
            ConnectionError: if the hub is not reached, and the cache does not hold the file.
        """
        api = _api()
        with _explained(self, file):
            return Path(api.hf_hub_download(self.name, file, repo_type="dataset", revision=self.revision))


def parse_repository(address: str) -> Repository:
    """What ``hf://owner/name`` or ``hf://owner/name@commit`` names.

    Raises:
        ValueError: if it is no such address.
    """
    name, _, revision = address.removeprefix(PREFIX).removeprefix("datasets/").partition("@")
    require_name(name, "an address reads hf://owner/name or hf://owner/name@commit")
    return Repository(name=name, revision=revision or None)


def require_name(name: str, rule: str) -> None:
    """Refuse what does not read ``owner/name``.

    Raises:
        ValueError: with the rule.
    """
    if not NAME.fullmatch(name):
        raise ValueError(f"{rule}; got {name!r}")


def log_in(name: str) -> Any:
    """The hub's library, logged in as somebody who may write to ``owner/name``.

    Raises:
        ImportError: if the library is missing.
        PermissionError: without a login, or if it may not write there.
        ConnectionError: if the hub is not reached.
    """
    api = _api()
    from huggingface_hub import get_token

    if get_token() is None:
        raise PermissionError(f"nobody is logged in to the Hugging Face hub; nothing was sent. To share, {LOGIN}")
    with _explained(Repository(name=name)):
        who = api.whoami()
    owners = [who["name"], *(one["name"] for one in who.get("orgs") or ())]
    if name.partition("/")[0].casefold() not in {owner.casefold() for owner in owners}:
        raise PermissionError(
            f"the login is that of {who['name']}, who may write to {' and '.join(owners)}, not to {name}; nothing was "
            f"sent. Pass a name that begins with {owners[0]}/, or {LOGIN}"
        )
    if (who.get("auth") or {}).get("accessToken", {}).get("role") == "read":
        raise PermissionError(f"the token of {who['name']} may read alone; nothing was sent. To share, {LOGIN}")
    return api


def publish(api: Any, name: str, files: Mapping[str, Path | bytes], *, private: bool, says: str) -> Repository:
    """Put files into a new or empty repository, all by one commit.

    Args:
        api: of :func:`log_in`.
        name: ``owner/name``; made if missing.
        files: by their names there.
        private: make a repository that its owner alone sees.
        says: the commit's message.

    Returns:
        The repository at this commit.

    Raises:
        FileExistsError: if the repository has files, or can be seen by all though ``private`` is asked for.
        OSError: if the hub refuses, or is not reached.
    """
    from huggingface_hub import CommitOperationAdd

    with _explained(Repository(name=name)):
        if not api.repo_exists(name, repo_type="dataset"):
            api.create_repo(name, repo_type="dataset", private=private)
        info = api.repo_info(name, repo_type="dataset")
        if held := sorted({file.rfilename for file in info.siblings or ()} - OWN_FILES):
            raise FileExistsError(
                f"{name} on the hub has files already, such as {held[0]}; nothing was sent. Pass another name, or "
                "empty it on its page"
            )
        if private and not info.private:
            raise FileExistsError(
                f"{name} on the hub is there already and can be seen by all; nothing was sent. Make it private on its "
                "page, or pass another name"
            )
        adds = [CommitOperationAdd(path_in_repo=file, path_or_fileobj=content) for file, content in files.items()]
        commit = api.create_commit(name, adds, commit_message=says, repo_type="dataset", parent_commit=info.sha)
    return Repository(name=name, revision=commit.oid)


def _api() -> Any:
    try:
        from huggingface_hub import HfApi
    except ImportError as error:
        raise ImportError(
            "profiles on the hub need the package huggingface_hub; install it with: pip install 'posym-core[share]'"
        ) from error
    return HfApi(library_name="posym-core")


@contextlib.contextmanager
def _explained(there: Repository, file: str = "") -> Iterator[None]:
    """Within the block, what goes wrong with the hub is said with what to do about it."""
    try:
        yield
    except Exception as error:
        _explain(there, file, error)


def _explain(there: Repository, file: str, error: Exception) -> NoReturn:
    causes: list[BaseException] = [error]
    while following := causes[-1].__cause__ or causes[-1].__context__:
        causes.append(following)
    kinds = {kind.__name__ for cause in causes for kind in type(cause).__mro__}
    statuses = {getattr(getattr(cause, "response", None), "status_code", None) for cause in causes}
    shown = f"{PREFIX}{there.name}" + (f"@{there.revision}" if there.revision else "")
    if kinds & {"RevisionNotFoundError"}:
        raise FileNotFoundError(f"{shown}: the repository has no such commit; leave it out for the newest") from error
    if kinds & {"RemoteEntryNotFoundError"}:
        raise FileNotFoundError(f"{shown} holds no profile: {file} is missing") from error
    if kinds & {"RepositoryNotFoundError"} or statuses & {401, 403}:
        raise PermissionError(
            f"{shown}: the Hugging Face hub has no such dataset, or this login may not use it. Check the name; for a "
            "private one, or to write, run `hf auth login`"
        ) from error
    if statuses & {409, 412}:
        raise FileExistsError(f"{shown} was changed meanwhile; nothing was sent. Run the command again") from error
    if kinds & {"OfflineModeIsEnabled", "LocalEntryNotFoundError", "ConnectionError", "TransportError"}:
        raise ConnectionError(
            f"{shown}: the Hugging Face hub was not reached. Check the network, and HF_HUB_OFFLINE, which may be set"
        ) from error
    raise error
