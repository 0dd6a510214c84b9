"""LangGraph under Reflex: graphs that tell what happens, and go on elsewhere when they fail.

```python
graphs = Graphs()
graphs.register("refund_graph:v1", refund)
graphs.register("degraded_refund_graph:v1", degraded, graph="refund_graph", entry_points=["log_refund_request"])
app = ReflexGraph(client, graphs, "refund_graph:v1", Settings(app_version="6.4.1"))
app.invoke({"request": "..."}, {"configurable": {"thread_id": "sess_1234", "tenant": "t-7"}})
```
"""

from reflex_runtime.langgraph.graph import ReflexGraph
from reflex_runtime.langgraph.registry import Graphs, Node, Registered
from reflex_runtime.langgraph.scope import Identity
from reflex_runtime.langgraph.settings import PausedError, Settings

__all__ = ["Graphs", "Identity", "Node", "PausedError", "ReflexGraph", "Registered", "Settings"]
