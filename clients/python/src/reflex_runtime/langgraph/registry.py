"""The graphs a runtime can load, by schema_ref, and the manifest that tells Reflex's registry about them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from langgraph.constants import END, START
from langgraph.pregel import Pregel

AnyGraph = Pregel[Any, Any, Any, Any]


@dataclass(frozen=True)
class Node:
    """What Reflex must know of a node, in the words of `[[graph]]` in its registry.

    Beside a node: `builder.add_node("pay", pay, metadata={"reflex": Node(irreversible=True).metadata()})`.
    """

    artifact: str | None = None
    """The channel this node is there to fill."""
    required: bool = False
    """Whether the run is worth nothing without the artifact."""
    mutating: bool = False
    """Whether it acts on the world."""
    irreversible: bool = False
    """Whether nothing takes that act back: a run past it is never rerouted."""
    idempotency_key: str | None = None
    """Template over the state, such as `refund_{order_id}`."""
    compensation: str | None = None
    """What takes the act back."""
    criticality: str | None = None
    """blocking, degraded_ok or optional."""
    fallback: str | None = None
    """use_cache, use_default, skip, delegate_to_human or approximate."""
    depends_on: tuple[str, ...] = ()
    """Nodes whose results it needs."""
    dependency: str | None = None
    """The service it calls; named on events, not in the manifest."""

    def metadata(self) -> dict[str, Any]:
        """As it stands in a node's metadata: only what is said."""
        return {
            item.name: list(value) if isinstance(value, tuple) else value
            for item in fields(self)
            if (value := getattr(self, item.name)) != item.default
        }

    @classmethod
    def from_metadata(cls, said: Mapping[str, Any]) -> Node:
        """Of a node's metadata; a word that is not known is an error, for it would be a fact that nobody reads."""
        known = {item.name for item in fields(cls)}
        if unknown := sorted(set(said) - known):
            raise ValueError(f"a node knows no {', '.join(unknown)}; it knows {', '.join(sorted(known))}")
        values: dict[str, Any] = {name: tuple(value) if name == "depends_on" else value for name, value in said.items()}
        return cls(**values)

    @property
    def acts(self) -> bool:
        """Whether it does something outside."""
        return self.mutating or self.irreversible


NOTHING_KNOWN = Node()


@dataclass(frozen=True)
class Registered:
    """One graph that can be loaded."""

    schema_ref: str
    graph: str
    compiled: AnyGraph
    nodes: Mapping[str, Node] = field(default_factory=dict)
    entry_points: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name in the reference."""
        return self.schema_ref.rpartition(":")[0]

    @property
    def version(self) -> str:
        """The version in the reference."""
        return self.schema_ref.rpartition(":")[2]

    def node(self, name: str) -> Node:
        """What is known of a node."""
        return self.nodes.get(name, NOTHING_KNOWN)


class Graphs:
    """Every graph this runtime can load. Fill it before the first run; it is read without a lock."""

    def __init__(self) -> None:
        self._by_ref: dict[str, Registered] = {}

    def register(
        self,
        schema_ref: str,
        compiled: AnyGraph,
        *,
        graph: str | None = None,
        nodes: Mapping[str, Node] | None = None,
        entry_points: Sequence[str] = (),
    ) -> Registered:
        """Makes a compiled graph loadable as `NAME:VERSION`.

        `graph` is the name a run resolves by, the same for the original and for everything that replaces it (default:
        the name in `schema_ref`). `entry_points` are nodes besides the graph's own starts at which a moved run may
        enter. `nodes` adds to what the nodes' metadata says.

        Raises ValueError for a reference without a version, one that is taken, and nodes the graph does not have.
        """
        name, colon, version = schema_ref.rpartition(":")
        if not (name and colon and version):
            raise ValueError(f"{schema_ref!r} is no schema reference: write NAME:VERSION")
        if schema_ref in self._by_ref:
            raise ValueError(f"{schema_ref} is registered already")
        said = {
            node: Node.from_metadata(spec.metadata["reflex"])
            for node, spec in compiled.nodes.items()
            if spec.metadata and isinstance(spec.metadata.get("reflex"), Mapping)
        }
        said.update(nodes or {})
        unknown = sorted((set(said) | set(entry_points)) - set(compiled.nodes))
        if unknown:
            raise ValueError(f"{schema_ref} has no node {', '.join(unknown)}")
        registered = Registered(schema_ref, graph or name, compiled, said, tuple(entry_points))
        self._by_ref[schema_ref] = registered
        return registered

    def get(self, schema_ref: str | None) -> Registered | None:
        """The graph of that reference."""
        return self._by_ref.get(schema_ref) if schema_ref is not None else None

    def holding(self, compiled: Any) -> Registered | None:
        """The registration of this very graph object."""
        return next((one for one in self._by_ref.values() if one.compiled is compiled), None)

    def schema_refs(self) -> list[str]:
        """Every reference that can be loaded; `client.runtime_started(graphs.schema_refs(), graphs=graphs.names())`."""
        return sorted(self._by_ref)

    def names(self) -> list[str]:
        """The names that runs resolve by."""
        return sorted({one.graph for one in self._by_ref.values()})

    def manifest(self) -> dict[str, Any]:
        """What `reflex registry import` reads: the fields of `[[graph]]`."""
        return {"graphs": [_graph_entry(self._by_ref[ref]) for ref in self.schema_refs()]}

    def write_manifest(self, path: str | Path) -> None:
        """Writes the manifest, whole or not at all; the same graphs give the same bytes."""
        path = Path(path)
        part = path.with_name(f"{path.name}.part")
        part.write_text(json.dumps(self.manifest(), indent=2) + "\n", encoding="utf-8")
        part.replace(path)


def _graph_entry(one: Registered) -> dict[str, Any]:
    drawn = one.compiled.get_graph()
    ends = (START, END)
    starts = [edge.target for edge in drawn.edges if edge.source == START and edge.target not in ends]
    edges = sorted({(edge.source, edge.target) for edge in drawn.edges if not {edge.source, edge.target} & set(ends)})
    names = [name for name in one.compiled.nodes if not name.startswith("__")]
    return {
        "name": one.name,
        "version": one.version,
        "entry_points": list(dict.fromkeys([*starts, *one.entry_points])),
        "nodes": [{"name": name, **_node_entry(one.node(name))} for name in names],
        "edges": [list(edge) for edge in edges],
        "channels": sorted(name for name in one.compiled.channels if is_state(name)),
    }


def _node_entry(node: Node) -> dict[str, Any]:
    return {name: value for name, value in node.metadata().items() if name != "dependency"}


def is_state(channel: str) -> bool:
    """Whether a channel is one of the state's, not one of LangGraph's own."""
    return not channel.startswith(("__", "branch:", "join:"))
