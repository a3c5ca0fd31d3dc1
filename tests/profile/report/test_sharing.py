"""Profiles on the Hugging Face hub: what is sent and read, against a stand-in that speaks the hub's protocol."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pytest
import yaml
from huggingface_hub import constants

from posym_core.store._sealing import seal
from posym_profile.__main__ import main
from posym_profile.report import load_profile, share_profile
from posym_profile.report._folder import MANIFEST, ProfileError, ProfileRun, write_profile
from posym_profile.report._hub import parse_repository
from posym_profile.report._prompt_files import BlockedPrompt

NAME = "ann/heads"


class Hub:
    """What the stand-in holds: who is logged in, repositories as lists of commits, and what it was asked."""

    def __init__(self) -> None:
        self.who: dict[str, Any] = {"type": "user", "name": "ann", "orgs": [{"name": "lab"}]}
        self.who["auth"] = {"accessToken": {"role": "write"}}
        self.states: dict[str, list[dict[str, bytes]]] = {}
        self.private: set[str] = set()
        self.asked: list[str] = []
        self.refusing: int | None = None

    def commits(self, name: str) -> list[str]:
        return [hashlib.sha1(f"{name} {number}".encode()).hexdigest() for number in range(len(self.states[name]))]

    def state(self, name: str, revision: str) -> tuple[str, dict[str, bytes]]:
        commits = self.commits(name)
        place = len(commits) - 1 if revision == "main" else commits.index(revision)
        return commits[place], self.states[name][place]

    def put(self, name: str, **files: bytes) -> None:
        """Change files of a repository behind everybody's back."""
        changed = {file.replace("_", ".", 1): content for file, content in files.items()}
        self.states[name].append({**self.states[name][-1], **changed})


class Answers(BaseHTTPRequestHandler):
    held: Hub

    def log_message(self, format: str, *args: object) -> None:
        pass

    def answer(self, status: int, content: object = b"", **headers: str) -> None:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_GET(self) -> None:
        held, path = self.held, unquote(self.path.partition("?")[0])
        held.asked.append(f"{self.command} {path}")
        if path == "/api/whoami-v2":
            return self.answer(200, held.who)
        if found := re.fullmatch(r"/api/datasets/([^/]+/[^/]+)(?:/revision/(.+))?", path):
            name, revision = found[1], found[2] or "main"
            if name not in held.states:
                return self.answer(404, {"error": "no"}, X_Error_Code="RepoNotFound")
            commit, files = held.state(name, revision)
            siblings = [{"rfilename": file} for file in files]
            said = {"id": name, "sha": commit, "private": name in held.private, "siblings": siblings}
            return self.answer(200, said)
        if found := re.fullmatch(r"/datasets/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            if found[1] not in held.states:
                return self.answer(404, {"error": "no"}, X_Error_Code="RepoNotFound")
            if found[2] != "main" and found[2] not in held.commits(found[1]):
                return self.answer(404, {"error": "no"}, X_Error_Code="RevisionNotFound")
            commit, files = held.state(found[1], found[2])
            if found[3] not in files:
                return self.answer(404, {"error": "no"}, X_Error_Code="EntryNotFound", X_Repo_Commit=commit)
            etag = f'"{hashlib.sha1(files[found[3]]).hexdigest()}"'
            return self.answer(200, files[found[3]], ETag=etag, X_Repo_Commit=commit)
        return self.answer(404, {"error": f"the stand-in knows no {path}"})

    do_HEAD = do_GET

    def do_POST(self) -> None:
        held, path = self.held, unquote(self.path)
        held.asked.append(f"POST {path}")
        sent = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        if held.refusing:
            return self.answer(held.refusing, {"error": "no"})
        if path == "/api/repos/create":
            asked = json.loads(sent)
            name = f"{asked['organization'] or held.who['name']}/{asked['name']}"
            held.states[name] = [{".gitattributes": b""}]
            if asked.get("private") or asked.get("visibility") == "private":
                held.private.add(name)
            return self.answer(200, {"url": f"{constants.ENDPOINT}/datasets/{name}"})
        if path == "/api/validate-yaml":
            return self.answer(200, {"errors": [], "warnings": []})
        if found := re.fullmatch(r"/api/datasets/([^/]+/[^/]+)/(preupload|commit)/main", path):
            if found[2] == "preupload":
                files = [{"path": file["path"], "uploadMode": "regular"} for file in json.loads(sent)["files"]]
                return self.answer(200, {"files": [{**file, "shouldIgnore": False} for file in files]})
            lines = [json.loads(line) for line in sent.splitlines()]
            (header,) = (line["value"] for line in lines if line["key"] == "header")
            if header["parentCommit"] != held.commits(found[1])[-1]:
                return self.answer(412, {"error": "changed"})
            files = {x["value"]["path"]: base64.b64decode(x["value"]["content"]) for x in lines if x["key"] == "file"}
            held.states[found[1]].append({**held.states[found[1]][-1], **files})
            commit = held.commits(found[1])[-1]
            url = f"{constants.ENDPOINT}/datasets/{found[1]}/commit/{commit}"
            return self.answer(200, {"success": True, "commitOid": commit, "commitUrl": url})
        return self.answer(404, {"error": f"the stand-in knows no {path}"})


@pytest.fixture
def held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub on this machine, which the library takes for the real one, with a login and an empty cache."""
    Answers.held = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    at = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setattr(constants, "ENDPOINT", at)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", at + "/{repo_id}/resolve/{revision}/{filename}")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    monkeypatch.setenv("HF_TOKEN", "hf_stand_in")
    yield Answers.held
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A finished profile of two prompts, and a file beside it that is nobody's business."""
    shape, generator = (2, 3, 4), np.random.default_rng(0)
    arrays = {name: generator.random(shape).astype(np.float32) for name in ("positional", "symbolic", "entropy")}
    arrays |= {name: np.full(2, value) for name, value in (("start", 1), ("block_length", 4), ("blocks", 5))}
    arrays |= {"length": np.full(2, 21), "visible_blocks": np.full((2, 3), 5), "tokens_beyond": np.zeros(2, int)}
    prompts = [BlockedPrompt(input_ids=tuple(range(21)), start=1, block_length=4, blocks=5, id=str(n)) for n in (0, 1)]
    settings = {"model": str(tmp_path / "secret" / "tiny"), "task": "index", "facts": 5, "prompts": 2, "dtype": None}
    made = {"date": "2026-11-23", "device": "CPU", "code_version": "0.1.0"}
    profile = ProfileRun(
        folder=tmp_path / "profile", settings=settings, provenance=made, arrays=arrays, prompts=prompts
    )
    write_profile(profile, {"report.html": b"<p>figures</p>"}, {})
    (profile.folder / "diary.txt").write_text("mine")
    return profile.folder


def sent(held: Hub) -> list[str]:
    return [line for line in held.asked if line.startswith("POST")]


def test_a_profile_is_shared_with_a_card_and_read_again(held: Hub, folder: Path, capsys: Any) -> None:
    assert main(["share", str(folder), "--to", NAME]) == 0
    said = capsys.readouterr()
    commit = held.commits(NAME)[-1]
    assert said.out == f"shared as hf://{NAME}@{commit}; the name alone reads the newest state\n"
    assert re.search(
        r"sending 6 files, 0\.0 MB, the prompts among them; profile\.json names the folder .*tiny", said.err
    )
    files = held.states[NAME][-1]
    assert files.keys() - {".gitattributes", "README.md"} == {path.name for path in folder.iterdir()} - {"diary.txt"}
    _, front, text = files["README.md"].decode().split("---\n", 2)
    assert yaml.safe_load(front)["pretty_name"] == "Attention heads of tiny on index"
    assert [table["data_files"] for table in yaml.safe_load(front)["configs"]] == ["heads.csv", "prompts.csv"]
    assert f'load_profile("hf://{NAME}")' in text
    assert "(3 layers of 4 heads), on 2 prompts of the task index. Measured on 2026-11-23" in text
    assert "secret" not in text
    here = load_profile(folder)
    for address in (f"hf://{NAME}", f"hf://datasets/{NAME}", f"hf://{NAME}@{commit}"):
        there = load_profile(address)
        assert there.settings == here.settings
        assert there.prompts == here.prompts
        for name, array in here.arrays.items():
            np.testing.assert_array_equal(there.arrays[name], array)
    assert len(held.states[NAME]) == 2  # that of the hub's own, and one commit for all


def test_what_was_changed_on_the_hub_is_refused_and_an_earlier_commit_read(held: Hub, folder: Path) -> None:
    commit = share_profile(folder, NAME).revision
    held.put(NAME, heads_csv=b"layer,head\n")
    message = rf"in hf://{NAME} heads\.csv was altered or truncated.* name an earlier commit, hf://{NAME}@COMMIT"
    with pytest.raises(ProfileError, match=message):
        load_profile(f"hf://{NAME}")
    assert load_profile(f"hf://{NAME}@{commit}").settings["task"] == "index"
    # A description that fits itself, but leaves a file out or leads elsewhere, is no profile either.
    described = json.loads((folder / MANIFEST).read_text())
    described.pop("checksum")
    record = described["files"]["heads.csv"]
    for wrong, message in (
        ({"heads.csv": record}, "names no prompts.csv, which every profile has"),
        (described["files"] | {"../../heads.csv": record}, "names '../../heads.csv', which is no file of this folder"),
    ):
        held.put(NAME, profile_json=seal(described | {"files": wrong}))
        with pytest.raises(ProfileError, match=re.escape(message)):
            load_profile(f"hf://{NAME}")
    assert not [line for line in held.asked if ".." in line]


@pytest.mark.parametrize(
    ("to", "change", "message"),
    [
        ("heads", {}, "a dataset on the hub is named owner/name, with your login or organisation as the owner; got"),
        ("bob/heads", {}, "login is that of ann, who may write to ann and lab, not to bob/heads; nothing was sent"),
        (NAME, {"auth": {"accessToken": {"role": "read"}}}, "token of ann may read alone; nothing was sent. To share"),
    ],
)
def test_who_may_not_share_is_told_before_anything_is_sent(
    held: Hub, folder: Path, to: str, change: dict[str, Any], message: str, capsys: Any
) -> None:
    held.who |= change
    assert main(["share", str(folder), "--to", to]) == 1
    assert message in capsys.readouterr().err
    assert sent(held) == []


def test_without_a_login_nothing_is_asked_of_the_hub(held: Hub, folder: Path, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.delenv("HF_TOKEN")
    assert main(["share", str(folder), "--to", NAME]) == 1
    assert (
        "nobody is logged in to the Hugging Face hub; nothing was sent. To share, run `hf auth login`, or set HF_"
        in (capsys.readouterr().err)
    )
    assert held.asked == []


def test_without_the_library_the_extra_is_named(folder: Path, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ImportError, match=r"need the package huggingface_hub; .* pip install 'posym-core\[share\]'"):
        load_profile(f"hf://{NAME}")
    assert main(["share", str(folder), "--to", NAME]) == 1
    assert "pip install 'posym-core[share]'" in capsys.readouterr().err


def test_only_a_whole_profile_is_shared(held: Hub, folder: Path, tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "empty").mkdir()
    assert main(["share", str(tmp_path / "empty"), "--to", NAME]) == 1
    assert "holds no profile (profile.json is missing)" in capsys.readouterr().err
    (folder / "heads.csv").write_text("layer,head\n")
    assert main(["share", str(folder), "--to", NAME]) == 1
    assert "heads.csv was altered or truncated" in capsys.readouterr().err
    assert held.asked == []


def test_a_repository_with_content_is_left_as_it_is(held: Hub, folder: Path) -> None:
    held.states["lab/heads"] = [{".gitattributes": b"", "data.csv": b"1"}]
    with pytest.raises(
        FileExistsError, match=r"lab/heads on the hub has files already, such as data\.csv; nothing was"
    ):
        share_profile(folder, "lab/heads")
    assert sent(held) == []
    held.states["lab/heads"] = [{".gitattributes": b""}]
    with pytest.raises(FileExistsError, match="is there already and can be seen by all; nothing was sent"):
        share_profile(folder, "lab/heads", private=True)
    assert sent(held) == []
    assert share_profile(folder, "lab/heads").name == "lab/heads"
    with pytest.raises(FileExistsError, match="has files already"):
        share_profile(folder, "lab/heads")


def test_a_private_repository_is_made_private(held: Hub, folder: Path) -> None:
    share_profile(folder, NAME, private=True)
    assert held.private == {NAME}


@pytest.mark.parametrize(
    ("address", "kind", "message"),
    [
        ("hf://heads", ValueError, "an address reads hf://owner/name or hf://owner/name@commit; got 'heads'"),
        (
            "hf://ann/none",
            PermissionError,
            "hf://ann/none: the Hugging Face hub has no such dataset, or this login may",
        ),
        ("hf://ann/empty", FileNotFoundError, "hf://ann/empty holds no profile: profile.json is missing"),
        ("hf://ann/empty@v2", FileNotFoundError, "hf://ann/empty@v2: the repository has no such commit; leave it out"),
    ],
)
def test_what_is_no_profile_on_the_hub_is_said(held: Hub, address: str, kind: type, message: str) -> None:
    held.states["ann/empty"] = [{".gitattributes": b""}]
    with pytest.raises(kind, match=re.escape(message)):
        load_profile(address)


@pytest.mark.parametrize(("status", "message"), [(403, "or this login may not use it"), (412, "was changed meanwhile")])
def test_a_hub_that_refuses_is_told_in_one_line(
    held: Hub, folder: Path, status: int, message: str, capsys: Any
) -> None:
    held.states[NAME] = [{".gitattributes": b""}]
    held.refusing = status
    assert main(["share", str(folder), "--to", NAME]) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith(f"error: hf://{NAME}")
    assert message in error


def test_a_hub_out_of_reach_is_said(held: Hub, folder: Path, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    assert main(["share", str(folder), "--to", NAME]) == 1
    assert f"error: hf://{NAME}: the Hugging Face hub was not reached. Check the network" in capsys.readouterr().err
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ConnectionError, match="was not reached"):
        load_profile(f"hf://{NAME}")


def test_an_address_names_a_repository_and_perhaps_a_commit() -> None:
    assert parse_repository("hf://ann/heads").revision is None
    assert parse_repository("hf://datasets/ann/heads@v2") == parse_repository("hf://ann/heads@v2")
