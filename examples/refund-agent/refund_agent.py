"""A refund agent that survives its model: LangGraph, with Reflex beside it.

An order graph has the refund graph as a subgraph. A model reads the customer's evidence; for blurred photos it answers
what does not validate, three times, and the refund graph fails. Reflex moves that session, and that one alone, onto a
degraded graph: the order and the evidence stay, the refund is not made, a person is asked.

    python refund_agent.py --kafka 127.0.0.1:9092 --sessions 10       # beside `reflex run --registry registry`
    python refund_agent.py --sessions 10                               # without Reflex: what it looks like today
    python refund_agent.py manifest                                    # the graphs, for Reflex's registry
"""

from __future__ import annotations

import argparse
import json
import operator
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Annotated, Any, TypedDict

from langchain_core.language_models.chat_models import SimpleChatModel
from langchain_core.messages import BaseMessage, HumanMessage
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import RetryPolicy
from pydantic import BaseModel, Field

from reflex_runtime import Client
from reflex_runtime.langgraph import Graphs, Node, ReflexGraph, Settings


class RefundState(TypedDict, total=False):
    """What a refund collects. Both refund graphs have these channels: what one collected the other can use."""

    request: dict[str, Any]
    order: dict[str, Any]
    evidence: dict[str, Any]
    evidence_analysis: dict[str, Any]
    refund: dict[str, Any]
    refund_request: dict[str, Any]
    log: Annotated[list[str], operator.add]


class OrderState(RefundState, total=False):
    """The order graph's: a refund, and what the customer is told."""

    reply: str


class EvidenceAnalysis(BaseModel):
    """What the model must answer."""

    damaged: bool
    amount_cents: int = Field(ge=0)


class MailServerDownError(Exception):
    """No mail can be sent."""


class ScriptedModel(SimpleChatModel):
    """Stands in for a model that reads photos: no network, and always wrong about blurred ones."""

    think_seconds: float = 0.0

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _call(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> str:
        time.sleep(self.think_seconds)
        if "blurred" in str(messages[-1].content):
            return json.dumps({"damaged": "hard to say", "amount_cents": "a lot"})
        return json.dumps({"damaged": True, "amount_cents": 1995})


@dataclass
class World:
    """What the agent does outside: counted, so that nothing can happen twice unseen."""

    done: Counter[tuple[str, str]] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, session_id: str, node: str) -> None:
        with self.lock:
            self.done[session_id, node] += 1

    def of(self, session_id: str) -> dict[str, int]:
        with self.lock:
            return {node: times for (session, node), times in self.done.items() if session == session_id}


RETRIES = RetryPolicy(max_attempts=3, initial_interval=0.01, backoff_factor=1.0, jitter=False, retry_on=Exception)


class RefundAgent:
    """The graphs, and what their nodes do."""

    def __init__(self, saver: BaseCheckpointSaver[Any] | None = None, think_seconds: float = 0.0) -> None:
        self.world = World()
        self.model = ScriptedModel(think_seconds=think_seconds)
        self.graphs = Graphs()
        refund = self._refund()
        self.graphs.register("refund_graph:v1", refund)
        # Resolved by the same name as the graph it stands in for.
        self.graphs.register(
            "degraded_refund_graph:v1", self._degraded(), graph="refund_graph", entry_points=["log_refund_request"]
        )
        self.graphs.register("order_graph:v1", self._order(refund, saver or InMemorySaver()))

    # The graphs.

    def _order(self, refund: Any, saver: BaseCheckpointSaver[Any]) -> Any:
        builder = StateGraph(OrderState)
        builder.add_node("take_request", self._take_request)
        builder.add_node("refund", refund)
        builder.add_node("reply", self._reply)
        builder.add_edge(START, "take_request")
        builder.add_edge("take_request", "refund")
        builder.add_edge("refund", "reply")
        return builder.compile(checkpointer=saver, name="order_graph")

    def _refund(self) -> Any:
        analysis = Node(artifact="evidence_analysis", required=True)
        payment = Node(
            mutating=True,
            irreversible=True,
            idempotency_key="refund_{order_id}",
            compensation="reverse_refund",
            dependency="payments",
        )
        builder = StateGraph(RefundState)
        builder.add_node("identify_order", self._identify_order)
        builder.add_node("request_evidence", self._request_evidence)
        builder.add_node(
            "evaluate_evidence",
            self._evaluate_evidence,
            retry_policy=RETRIES,
            metadata={"reflex": analysis.metadata()},
        )
        builder.add_node("check_eligibility", self._check_eligibility)
        builder.add_node("issue_refund", self._issue_refund, metadata={"reflex": payment.metadata()})
        builder.add_node("confirm_refund", self._confirm_refund)
        builder.add_edge(START, "identify_order")
        builder.add_edge("identify_order", "request_evidence")
        builder.add_edge("request_evidence", "evaluate_evidence")
        builder.add_edge("evaluate_evidence", "check_eligibility")
        builder.add_edge("check_eligibility", "issue_refund")
        builder.add_edge("issue_refund", "confirm_refund")
        return builder.compile(name="refund_graph")

    def _degraded(self) -> Any:
        request = Node(
            artifact="refund_request", required=True, mutating=True, idempotency_key="refund_request_{order_id}"
        )
        builder = StateGraph(RefundState)
        builder.add_node("identify_order", self._identify_order)
        builder.add_node("request_evidence", self._request_evidence)
        builder.add_node("log_refund_request", self._log_refund_request, metadata={"reflex": request.metadata()})
        builder.add_node("hand_to_human", self._hand_to_human, metadata={"reflex": Node(mutating=True).metadata()})
        builder.add_edge(START, "identify_order")
        builder.add_edge("identify_order", "request_evidence")
        builder.add_edge("request_evidence", "log_refund_request")
        builder.add_edge("log_refund_request", "hand_to_human")
        return builder.compile(name="degraded_refund_graph")

    # What their nodes do.

    def _did(self, state: RefundState, node: str) -> list[str]:
        self.world.note(state["request"]["session_id"], node)
        return [node]

    def _take_request(self, state: OrderState) -> OrderState:
        return {"log": self._did(state, "take_request")}

    def _identify_order(self, state: RefundState) -> RefundState:
        log = self._did(state, "identify_order")
        return {"order": {"id": state["request"]["order_id"], "paid_cents": 1995}, "log": log}

    def _request_evidence(self, state: RefundState) -> RefundState:
        log = self._did(state, "request_evidence")
        return {"evidence": {"photo": state["request"]["photo"]}, "log": log}

    def _evaluate_evidence(self, state: RefundState) -> RefundState:
        log = self._did(state, "evaluate_evidence")
        answer = self.model.invoke([HumanMessage(f"Is the item damaged? Photo: {state['evidence']['photo']}")])
        analysis = EvidenceAnalysis.model_validate_json(str(answer.content))
        return {"evidence_analysis": analysis.model_dump(), "log": log}

    def _check_eligibility(self, state: RefundState) -> RefundState:
        return {"log": self._did(state, "check_eligibility")}

    def _issue_refund(self, state: RefundState) -> RefundState:
        log = self._did(state, "issue_refund")
        return {"refund": {"cents": state["evidence_analysis"]["amount_cents"]}, "log": log}

    def _confirm_refund(self, state: RefundState) -> RefundState:
        log = self._did(state, "confirm_refund")
        if state["request"].get("mail") == "down":
            raise MailServerDownError("no answer")
        return {"log": log}

    def _log_refund_request(self, state: RefundState) -> RefundState:
        log = self._did(state, "log_refund_request")
        return {"refund_request": {"order": state["order"], "evidence": state.get("evidence")}, "log": log}

    def _hand_to_human(self, state: RefundState) -> RefundState:
        return {"log": self._did(state, "hand_to_human")}

    def _reply(self, state: OrderState) -> OrderState:
        log = self._did(state, "reply")
        if state.get("refund"):
            return {"reply": f"{state['refund']['cents'] / 100:.2f} are on their way to you.", "log": log}
        return {"reply": "A colleague looks at your photo and answers today.", "log": log}


def request(session_id: str, number: int, *, photo: str = "sharp", mail: str = "up") -> OrderState:
    """One customer's request."""
    return {
        "request": {"session_id": session_id, "order_id": f"order-{number}", "photo": photo, "mail": mail},
        "log": [],
    }


def config(session_id: str, tenant: str = "t-1", region: str = "eu-west") -> Any:
    """The thread is the session; tenant and region are what cohorts are made of."""
    return {"configurable": {"thread_id": session_id, "tenant": tenant, "region": region}}


def run_sessions(app: ReflexGraph, sessions: int, failing: float) -> Iterator[tuple[str, dict[str, Any] | Exception]]:
    """Runs so many customers at once; that share of them has blurred photos."""

    def one(number: int) -> tuple[str, dict[str, Any] | Exception]:
        session_id = f"sess-{number}"
        blurred = int(number * failing) != int((number + 1) * failing)
        try:
            given = request(session_id, number, photo="blurred" if blurred else "sharp")
            return session_id, app.invoke(given, config(session_id, f"t-{number % 5}"))
        except Exception as error:
            return session_id, error

    with ThreadPoolExecutor(max_workers=max(1, min(sessions, 50))) as pool:
        yield from pool.map(one, range(sessions))


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=["run", "manifest"], default="run")
    parser.add_argument("--kafka", help="brokers, host:port, that `reflex run` uses too")
    parser.add_argument("--http", help="or the address of `reflex run --http`, http://host:port")
    parser.add_argument("--sessions", type=int, default=10)
    parser.add_argument("--failing", type=float, default=0.3, help="share of blurred photos (0.3)")
    given = parser.parse_args(arguments)
    agent = RefundAgent()
    if given.what == "manifest":
        json.dump(agent.graphs.manifest(), sys.stdout, indent=2)
        print()
        return 0
    if given.kafka or given.http:
        client = Client(kafka=given.kafka, http=given.http)
        if not client.wait_ready(10.0):
            print("Reflex is not there (yet); the agent runs without it", file=sys.stderr)
        client.runtime_started(agent.graphs.schema_refs(), graphs=agent.graphs.names())
        app: Any = ReflexGraph(client, agent.graphs, "order_graph:v1", Settings(app_version="6.4.1"))
    else:
        client = None
        plain = agent.graphs.get("order_graph:v1")
        app = plain.compiled if plain is not None else None
    for session_id, result in run_sessions(app, given.sessions, given.failing):
        said = f"failed: {type(result).__name__}" if isinstance(result, Exception) else result["reply"]
        print(f"{session_id:8} {said:50} {' '.join(agent.world.of(session_id))}")
    if client is not None:
        client.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
