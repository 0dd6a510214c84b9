"""Which graph a run starts on, and who runs it."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from reflex_runtime.langgraph import Identity, PausedError, ReflexGraph, Settings

from .fakes import FakeClient, FakeOverride, FakeResolution
from .helpers import CONFIG, app_of, chain, ok
from .samples import DEGRADE, Samples

# Resolution


def cohort(schema_ref: str, **said: Any) -> FakeResolution:
    return FakeResolution(schema_ref, "degraded", override_id="ovr_c", override_attempt=2, reason="cohort", **said)


@pytest.mark.parametrize("nested", [False, True])
def test_a_cohort_override_chooses_the_graph_at_the_start(nested: bool) -> None:
    samples, client = Samples(), FakeClient()
    client.resolutions["refund_graph"] = cohort("degraded_refund_graph:v1")
    graphs = samples.graphs(checkpointer=None if nested else InMemorySaver())
    name = "refund_graph:v1"
    if nested:
        refund = graphs.get(name)
        assert refund is not None
        name = "outer:v1"
        graphs.register(name, chain(refund=refund.compiled).compile(checkpointer=InMemorySaver()))
    settings = Settings(app_version="6.4.1", attributes={"model": "m-1"})
    result = ReflexGraph(client, graphs, name, settings).invoke({"log": []}, CONFIG)
    assert samples.ran == [
        "degraded identify_order",
        "degraded request_evidence",
        "log_refund_request",
        "hand_to_person",
    ]
    assert result["refund_request"] == "order 17"
    context = next(context for graph, context in client.resolved if graph == "refund_graph")
    assert context.pop("run_id")
    assert context == {
        "session_id": "sess_1",
        "phase": "start",
        "graph_version": "v1",
        "tenant": "t-7",
        "region": "eu-west",
        "app_version": "6.4.1",
        "attributes": {"model": "m-1"},
    }
    for event in client.events:
        if event["graph"] == "refund_graph":
            assert event["route"] == "degraded"
            assert event["schema_ref"] == "degraded_refund_graph:v1"
            assert (event["override_id"], event["override_attempt"]) == ("ovr_c", 2)
            assert event["graph_version"] == "v1"


def test_a_schema_that_is_not_there_leaves_the_original() -> None:
    samples, client = Samples(total=3), FakeClient()
    client.resolutions["refund_graph"] = cohort("other:v7")
    ReflexGraph(client, samples.graphs(), "refund_graph:v1").invoke({"log": []}, CONFIG)
    assert samples.ran[-1] == "issue_refund"
    ignored = client.of("override_ignored")
    assert [(e["reason"], e["override_id"], e["route"]) for e in ignored] == [("unknown_schema", "ovr_c", "primary")]


def test_a_paused_session_waits() -> None:
    samples, client = Samples(), FakeClient()
    client.resolutions["refund_graph"] = cohort("refund_graph:v1", kind="pause")
    with pytest.raises(PausedError, match="ovr_c"):
        ReflexGraph(client, samples.graphs(), "refund_graph:v1").invoke({"log": []}, CONFIG)
    assert samples.ran == []


def test_a_pause_at_a_failure_leaves_the_failure() -> None:
    samples, client = Samples(), FakeClient(FakeOverride(None, kind="pause"))
    with pytest.raises(Exception) as raised:
        ReflexGraph(client, samples.graphs(checkpointer=InMemorySaver()), "refund_graph:v1").invoke({"log": []}, CONFIG)
    assert raised.value is samples.error


def test_an_operators_deny_is_above_the_override() -> None:
    samples, client = Samples(), FakeClient(DEGRADE)
    resolutions = iter([FakeResolution("refund_graph:v1"), FakeResolution("refund_graph:v1", reason="deny")])
    client.resolve = lambda graph, context=None: next(resolutions)  # type: ignore[method-assign]
    with pytest.raises(Exception) as raised:
        ReflexGraph(client, samples.graphs(checkpointer=InMemorySaver()), "refund_graph:v1").invoke({"log": []}, CONFIG)
    assert raised.value is samples.error
    assert not client.of("override_applied")


def test_who_runs_can_be_said_otherwise() -> None:
    client = FakeClient()
    settings = Settings(identify=lambda config: Identity("s-9", tenant="t-1", attributes={"plan": "free"}))
    app_of(chain(one=ok), client, settings=settings).invoke({"log": []}, CONFIG)
    assert {(e["session_id"], e["tenant"], e["attributes"]["plan"]) for e in client.events} == {("s-9", "t-1", "free")}
