"""URLs, the packages that they need, and the index of what is there: wrong ones are explained."""

from pathlib import Path

import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem
from tracker_adapters.errors import MissingPackageError, NotARunError, RunError
from tracker_adapters.remote import place as place_module
from tracker_adapters.remote.place import RemotePlace, is_url
from tracker_adapters.remote.record import read_remote
from tracker_adapters.remote.sealed import INDEX, read_index


def test_objects_are_written_copied_and_removed(place, tmp_path):
    local = RemotePlace((tmp_path / "there").as_uri())
    (tmp_path / "source").write_bytes(b"content")
    for one in (place, local):
        assert one.names() == []
        assert one.read("a/b") is None
        one.upload(tmp_path / "source", "a/b")
        one.write("c", b"new")
        assert (one.names(), one.read("a/b"), one.read("c")) == (["a/b", "c"], b"content", b"new")
        one.download("a/b", tmp_path / "back")
        assert (tmp_path / "back").read_bytes() == b"content"
        one.remove("a/b")
        one.remove("a/b")
        one.check_writable()
        assert one.names() == ["c"]


@pytest.mark.parametrize(
    "content",
    [
        b"no json",
        b"{}",
        b'{"format": "stepscope-sealed", "version": 9}',
        b'{"format":"stepscope-sealed","version":1,"manifest":{},"writer":null,"last_writer":"",'
        b'"parts":[],"files":{"../../x":{"size":1,"sha256":"","key":"a"}}}',
        b'{"format":"stepscope-sealed","version":1,"manifest":{},"writer":null,"last_writer":"",'
        b'"parts":[],"files":{"/x":{"size":1,"sha256":"","key":"a"}}}',
        b'{"format":"stepscope-sealed","version":1,"manifest":{},"writer":null,"last_writer":"",'
        b'"parts":["../x"],"files":{}}',
    ],
)
def test_an_index_that_is_none_is_refused(place, content):
    place.write(INDEX, content)
    with pytest.raises(NotARunError, match=r"sealed\.json (is damaged: (?!KeyError\('parts)|has version)"):
        read_index(place)


@pytest.mark.parametrize(
    ("url", "error", "message"),
    [
        ("s3://key:hunter2@bucket/run", RunError, "holds credentials; expected them in the environment"),
        ("nosuch://bucket/run", RunError, "Protocol not known: nosuch"),
        ("memory://bucket/missing", NotARunError, "holds no stepscope run"),
    ],
)
def test_a_url_that_cannot_be_is_explained(url, error, message):
    with pytest.raises(error, match=message) as caught:
        read_remote(url)
    assert "hunter2" not in str(caught.value)


def test_without_the_package_the_extra_is_named(monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(place_module, "import_module", missing)
    with pytest.raises(MissingPackageError, match=r"pip install 'stepscope\[s3\]'"):
        RemotePlace("s3://bucket/run")
    with pytest.raises(MissingPackageError, match=r"pip install 'stepscope\[remote\]'"):
        RemotePlace("gs://bucket/run")


@pytest.mark.parametrize(
    ("path", "answer"), [("s3://b/x", True), ("a/b", False), ("C:/x", False), (Path("s3:/b"), False)]
)
def test_urls_are_told_from_paths(path, answer):
    assert is_url(path) is answer


class Folders(LocalFileSystem):
    """A file system with folders that are not made by themselves, as those over SSH."""

    protocol = "folders"

    @classmethod
    def _strip_protocol(cls, path):
        return str(path).removeprefix("folders://")


def test_folders_are_made_where_a_place_has_them(tmp_path):
    fsspec.register_implementation("folders", Folders, clobber=True)
    (tmp_path / "source").write_bytes(b"content")
    place = RemotePlace(f"folders://{tmp_path}/there")
    place.write("a/b", b"1")
    place.upload(tmp_path / "source", "c/d/e")
    assert (place.read("a/b"), place.read("c/d/e")) == (b"1", b"content")
