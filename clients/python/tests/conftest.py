"""Where the tests find what is outside of the package."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker import Broker

REPOSITORY = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session")
def vectors() -> Path:
    folder = Path(os.environ.get("REFLEX_TEST_VECTORS", REPOSITORY / "vectors"))
    if not (folder / "resolve.json").is_file():
        pytest.fail(f"the vectors are not at {folder}: set REFLEX_TEST_VECTORS")
    return folder


@pytest.fixture(scope="session")
def program() -> str:
    """The program that computes resolution in Rust."""
    found = os.environ.get("REFLEX_TEST_PROGRAM", "")
    if not found:
        pytest.fail("tests marked program need REFLEX_TEST_PROGRAM=path of the reflex program")
    return found


@pytest.fixture(scope="session")
def kafka() -> str:
    """The address of a real broker that nobody stops."""
    address = os.environ.get("REFLEX_TEST_KAFKA", "")
    if not address:
        pytest.fail("tests marked kafka need a real broker: REFLEX_TEST_KAFKA=host:port")
    return address


@pytest.fixture
def own_broker(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A broker that the test may kill, with settings of its own as the parameter."""
    jars = os.environ.get("REFLEX_TEST_KAFKA_JARS", "")
    if not jars:
        pytest.fail("this test kills its broker: REFLEX_TEST_KAFKA_JARS=folder with the jars of Kafka")
    broker = Broker(Path(jars), tmp_path / "kafka", getattr(request, "param", ""))
    broker.start()
    yield broker
    broker.kill()


@pytest.fixture
def no_snapshot_left(tmp_path: Path) -> Iterator[Path]:
    """A path for a snapshot; no half-written file may stay beside it."""
    folder = tmp_path / "state"
    folder.mkdir()
    yield folder / "overrides.ndjson"
    left: list[Any] = [file.name for file in folder.iterdir() if file.name.startswith(".")]
    assert left == []
