"""A base whose file was cut short, as by an interrupted copy, is refused. LMDB by itself would kill the process."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import lowtide
from lowtide.upkeep.verify import verify_files
from tests.crash.stores import child, lines_of
from tests.support.patience import PATIENCE

PROGRAM = """
import json, sys, lowtide

try:
    with lowtide.open(sys.argv[1]) as store:
        print(json.dumps(["opened", len(list(store.keyspace("k").scan())), store.verify().ok]), flush=True)
except lowtide.CorruptionError as error:
    print(json.dumps(["refused", str(error)]), flush=True)
"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "store"
    with lowtide.open(path, durability="relaxed") as store:
        for number in range(3):
            with store.transaction() as tx:
                for key in range(number, 2000, number + 1):
                    tx.keyspace("k").put(b"%06d" % key, b"v" * 100)
            store.checkpoint()
    return path


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_a_base_that_was_cut_short_is_refused_or_whole(tmp_path: Path, whole: Path, share: float) -> None:
    shutil.copytree(whole, tmp_path / "store")
    data = tmp_path / "store" / "base" / "data.mdb"
    pages = data.stat().st_size // 4096
    os.truncate(data, (2 + round((pages - 3) * share)) * 4096)
    assert not verify_files(tmp_path / "store").ok
    with child(PROGRAM, tmp_path / "store") as process:
        (answer,) = lines_of(process)
        assert process.wait(PATIENCE) == 0
    assert answer[0] == "refused" or (share == 1.0 and answer == ["opened", 2000, True]), answer
