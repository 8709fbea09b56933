"""The page that the owner shares: the last published commit, for other processes."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

import lowtide
from lowtide.sharing.page import Page

STORE = b"0123456789abcdef"


def test_what_the_owner_publishes_is_seen_at_once_by_those_who_have_it_open(tmp_path: Path) -> None:
    owner = Page(tmp_path, STORE, owner=True)
    reader = Page(tmp_path, STORE, owner=False)
    for ts in (0, 1, 2**40):
        owner.publish(ts)
        assert reader.published == owner.published == ts


def test_another_owner_goes_on_in_the_same_page(tmp_path: Path) -> None:
    first = Page(tmp_path, STORE, owner=True)
    first.publish(7)
    reader = Page(tmp_path, STORE, owner=False)
    first.close()
    second = Page(tmp_path, STORE, owner=True)
    assert second.published == 7
    second.publish(8)
    assert reader.published == 8


def test_whoever_looks_after_the_close_finds_what_was_there_last(tmp_path: Path) -> None:
    """A thread that waits for commits looks once more while its store is being closed."""
    owner = Page(tmp_path, STORE, owner=True)
    reader = Page(tmp_path, STORE, owner=False)
    owner.publish(7)
    reader.close()
    owner.publish(8)
    assert reader.published == 7
    reader.close()


def test_only_the_user_can_read_it(tmp_path: Path) -> None:
    Page(tmp_path, STORE, owner=True).close()
    assert stat.S_IMODE((tmp_path / "published").stat().st_mode) == 0o600


def test_the_page_of_another_store_is_refused_to_readers_and_made_anew_by_the_owner(tmp_path: Path) -> None:
    Page(tmp_path, b"x" * 16, owner=True).close()
    with pytest.raises(lowtide.CorruptionError, match="another store"):
        Page(tmp_path, STORE, owner=False)
    Page(tmp_path, STORE, owner=True).close()
    assert Page(tmp_path, STORE, owner=False).published == 0


@pytest.mark.parametrize("content", [b"", b"short", bytes(33)])
def test_a_file_of_another_size_is_refused_to_readers_and_mended_by_the_owner(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "published").write_bytes(content)
    with pytest.raises(lowtide.CorruptionError):
        Page(tmp_path, STORE, owner=False)
    Page(tmp_path, STORE, owner=True).close()
    Page(tmp_path, STORE, owner=False).close()
