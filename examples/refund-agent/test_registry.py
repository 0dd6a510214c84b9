"""The registry says of the graphs what the code says."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from refund_agent import RefundAgent, config, request

REGISTRY = Path(__file__).parent / "registry" / "refund.toml"


def test_the_registry_has_the_graphs_of_the_code() -> None:
    written: dict[str, Any] = tomllib.loads(REGISTRY.read_text())
    registered = {(graph["name"], graph["version"]): graph for graph in written["graph"]}
    for graph in RefundAgent().graphs.manifest()["graphs"]:
        said = registered.pop((graph["name"], graph["version"]))
        assert said.pop("active")
        assert said == graph
    assert not registered


def test_without_reflex_a_blurred_photo_ends_the_session() -> None:
    agent = RefundAgent()
    order = agent.graphs.get("order_graph:v1")
    assert order is not None
    assert order.compiled.invoke(request("s-1", 1), config("s-1"))["reply"] == "19.95 are on their way to you."
    with pytest.raises(ValidationError):
        order.compiled.invoke(request("s-2", 2, photo="blurred"), config("s-2"))
    assert agent.world.of("s-2") == {
        "take_request": 1,
        "identify_order": 1,
        "request_evidence": 1,
        "evaluate_evidence": 3,
    }
