"""A server that answers as Reflex does over HTTP (schemas/openapi.json), and that a test can make fail."""

import json
import threading
import time
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


class Server:
    """Overrides by key with a cursor, interventions by session, events as they came."""

    def __init__(self, port: int = 0, token: str | None = None) -> None:
        self.changed = threading.Condition()
        self.log: list[dict[str, Any]] = []
        self.first = 0
        self.epoch = 1
        self.held: dict[str, Any] = {}
        self.interventions: list[dict[str, Any]] = []
        self.events: list[dict[str, Any]] = []
        self.requests: list[str] = []
        self.token = token
        self.event_answers: list[tuple[int, Any]] = []
        self.ahead_seconds = 0.0
        handler = type("Bound", (_Handler,), {"served": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", port), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def put(self, key: str, record: Any) -> None:
        """A record, or its tombstone."""
        with self.changed:
            self.log.append({"key": key, "override": record})
            if record is None:
                self.held.pop(key, None)
            else:
                self.held[key] = record
            self.changed.notify_all()

    def intervene(self, intervention: dict[str, Any], *, settled: bool) -> None:
        """An intervention; the newest is answered first."""
        with self.changed:
            self.interventions.insert(0, {"intervention": intervention, "override": None, "settled": settled})
            self.changed.notify_all()

    def forget_cursors(self) -> None:
        """As another process that took over: cursors of before mean nothing."""
        with self.changed:
            self.epoch += 1
            self.changed.notify_all()

    def close(self) -> None:
        """Stops; open connections are cut with the process's threads."""
        with self.changed:
            self.epoch = -1
            self.changed.notify_all()
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    served: Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_: Any) -> None:
        pass

    def date_time_string(self, timestamp: float | None = None) -> str:
        return formatdate((timestamp or time.time()) + self.served.ahead_seconds, usegmt=True)

    def _answer(self, status: int, body: Any, **headers: str) -> None:
        content = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(content)

    def _allowed(self) -> bool:
        token = self.served.token
        if token is None or self.headers.get("Authorization") == f"Bearer {token}":
            return True
        self._answer(401, {"status": 401, "code": "unauthorized", "detail": "no"})
        return False

    def do_GET(self) -> None:
        self.served.requests.append(self.path)
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if not self._allowed():
            return
        if parts.path == "/v1/overrides":
            self._overrides(query)
        elif parts.path == "/v1/interventions":
            self._interventions(query)
        else:
            self._answer(404, {"status": 404, "code": "not_found", "detail": "no"})

    def _overrides(self, query: dict[str, str]) -> None:
        served = self.served
        with served.changed:
            epoch, _, at = query.get("after", "0-0").partition("-")
            if int(epoch) == served.epoch:
                served.changed.wait_for(
                    lambda: len(served.log) > int(at) or served.epoch != int(epoch), float(query.get("wait", 0))
                )
            if served.epoch == -1:
                self.close_connection = True
                return
            cursor = f"{served.epoch}-{len(served.log)}"
            if int(epoch) == served.epoch:
                body = {"cursor": cursor, "full": False, "overrides": served.log[int(at) :]}
            else:
                everything = [{"key": key, "override": record} for key, record in served.held.items()]
                body = {"cursor": cursor, "full": True, "overrides": everything}
        self._answer(200, body)

    def _interventions(self, query: dict[str, str]) -> None:
        served = self.served

        def found() -> list[dict[str, Any]]:
            of_session = []
            for item in served.interventions:
                record = item["intervention"]
                if record["intervention_id"] == query.get("after"):
                    break
                of_run = query.get("run_id") in (None, record["run_id"])
                if record["scope"]["session_id"] == query["session_id"] and of_run:
                    of_session.append(item)
            return of_session

        with served.changed:
            settled = served.changed.wait_for(
                lambda: any(item["settled"] for item in found()[:1]) or served.epoch == -1, float(query["wait"])
            )
            items = found()
        if settled and items:
            self._answer(200, {"interventions": items})
        else:
            self._answer(204, None)

    def do_POST(self) -> None:
        served = self.served
        served.requests.append(self.path)
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self._allowed():
            return
        if served.event_answers:
            status, answer = served.event_answers.pop(0)
            retry = {"Retry_After": "0.1"} if status in (429, 503) else {}
            skipped = {item["index"] for item in (answer or {}).get("items", ())} if status in (207, 503) else set()
            if status in (202, 207) or (status == 503 and answer):
                served.events.extend(event for at, event in enumerate(body) if at not in skipped)
            self._answer(status, answer, **retry)
            return
        served.events.extend(body)
        self._answer(202, {"accepted": len(body), "rejected": 0, "failed": 0, "items": []})
