"""The refund graphs in small, with a list of what ran."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

from langgraph.graph import START, StateGraph
from langgraph.types import RetryPolicy
from pydantic import BaseModel

from reflex_runtime.langgraph import Graphs, Node

from .fakes import FakeOverride, FakeResume


class State(TypedDict, total=False):
    order: dict[str, Any]
    evidence: dict[str, Any]
    evidence_analysis: dict[str, Any]
    refund_request: str
    log: Annotated[list[str], operator.add]


class Analysis(BaseModel):
    total: int


RETRIES = RetryPolicy(max_attempts=3, initial_interval=0.001, jitter=False, retry_on=Exception)


class Samples:
    """The graphs of one test; `ran` is what its nodes did, in order."""

    def __init__(self, total: Any = "many", fails_in_degraded: bool = False) -> None:
        self.ran: list[str] = []
        self.total = total
        self.fails_in_degraded = fails_in_degraded
        self.error: Exception | None = None

    def node(self, name: str, **update: Any) -> Any:
        def run(state: State) -> dict[str, Any]:
            self.ran.append(name)
            return {"log": [name], **update}

        return run

    def evaluate(self, state: State) -> dict[str, Any]:
        self.ran.append("evaluate_evidence")
        try:
            analysis = Analysis.model_validate({"total": self.total})
        except Exception as error:
            self.error = error
            raise
        return {"log": ["evaluate_evidence"], "evidence_analysis": analysis.model_dump()}

    def log_request(self, state: State) -> dict[str, Any]:
        self.ran.append("log_refund_request")
        if self.fails_in_degraded:
            raise RuntimeError("no case system")
        return {"log": ["log_refund_request"], "refund_request": f"order {state['order']['id']}"}

    def refund(self, **compile: Any) -> Any:
        builder = StateGraph(State)
        builder.add_node("identify_order", self.node("identify_order", order={"id": 17}))
        builder.add_node("request_evidence", self.node("request_evidence", evidence={"photo": 1}))
        builder.add_node(
            "evaluate_evidence",
            self.evaluate,
            retry_policy=RETRIES,
            metadata={"reflex": Node(artifact="evidence_analysis", required=True).metadata()},
        )
        builder.add_node(
            "issue_refund",
            self.node("issue_refund"),
            metadata={"reflex": Node(mutating=True, irreversible=True, idempotency_key="refund_{order_id}").metadata()},
        )
        builder.add_edge(START, "identify_order")
        builder.add_edge("identify_order", "request_evidence")
        builder.add_edge("request_evidence", "evaluate_evidence")
        builder.add_edge("evaluate_evidence", "issue_refund")
        return builder.compile(name="refund_graph", **compile)

    def degraded(self, **compile: Any) -> Any:
        builder = StateGraph(State)
        builder.add_node("identify_order", self.node("degraded identify_order", order={"id": 17}))
        builder.add_node("request_evidence", self.node("degraded request_evidence", evidence={"photo": 1}))
        builder.add_node("log_refund_request", self.log_request)
        builder.add_node("hand_to_person", self.node("hand_to_person"))
        builder.add_edge(START, "identify_order")
        builder.add_edge("identify_order", "request_evidence")
        builder.add_edge("request_evidence", "log_refund_request")
        builder.add_edge("log_refund_request", "hand_to_person")
        return builder.compile(name="degraded_refund_graph", **compile)

    def graphs(self, **compile: Any) -> Graphs:
        graphs = Graphs()
        graphs.register("refund_graph:v1", self.refund(**compile))
        graphs.register(
            "degraded_refund_graph:v1", self.degraded(), graph="refund_graph", entry_points=["log_refund_request"]
        )
        return graphs


DEGRADE = FakeOverride(
    "degraded_refund_graph:v1",
    "log_refund_request",
    FakeResume("request_evidence", ["order", "evidence"], [], ["refund_graph:v1"]),
)

RESCUED = [
    "identify_order",
    "request_evidence",
    "evaluate_evidence",
    "evaluate_evidence",
    "evaluate_evidence",
    "log_refund_request",
    "hand_to_person",
]
