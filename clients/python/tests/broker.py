"""A real Kafka of one node for a test: started from jars, killed with the test.

python tests/broker.py JARS COMMAND…        runs a command with REFLEX_TEST_KAFKA and REFLEX_TEST_KAFKA_JARS set
"""

import base64
import contextlib
import ctypes
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

READY_SECONDS = 120.0
START_ATTEMPTS = 3
LOWEST_PORT, HIGHEST_PORT = 16_384, 24_576

SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={folder}/data
auto.create.topics.enable=false
offsets.topic.num.partitions=4
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
broker.session.timeout.ms=2000
broker.heartbeat.interval.ms=300
"""


def _free_port() -> int:
    """A port from below the kernel's own range: one of that range may be given to a client while the broker is down."""
    while True:
        port = random.randrange(LOWEST_PORT, HIGHEST_PORT)
        with socket.socket() as sock, contextlib.suppress(OSError):
            sock.bind(("127.0.0.1", port))
            return port


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


class Broker:
    """``start`` after ``kill`` or ``stop`` keeps the port and the data."""

    def __init__(self, jars: Path, folder: Path, settings: str = "") -> None:
        java = shutil.which("java")
        if java is None:
            raise RuntimeError("a broker needs java (17 or newer)")
        self._java = [java, "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-Dlog4j2.level=OFF"]
        self._class_path = f"{jars}/*"
        self._folder = folder
        self._settings = SETTINGS + settings
        self._port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    def start(self) -> None:
        """Returns when it answers. Another process may take a free port first: a new broker then tries others."""
        if self._folder.exists():
            return self._run()
        for left in reversed(range(START_ATTEMPTS)):
            self._format()
            try:
                return self._run()
            except RuntimeError:
                if left == 0:
                    raise
                self.kill()
                shutil.rmtree(self._folder)
                self._port = _free_port()
        return None

    def _format(self) -> None:
        settings = self._folder / "server.properties"
        self._folder.mkdir(parents=True)
        settings.write_text(self._settings.format(port=self._port, controller=_free_port(), folder=self._folder))
        # An id that begins with a dash is taken for an option.
        cluster = "R" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:].rstrip("=")
        tool = ["kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(settings)]
        command = [*self._java, "-Xmx128m", "-cp", self._class_path, *tool]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"the storage was not formatted: {done.stdout}{done.stderr}")

    def _run(self) -> None:
        with (self._folder / "log").open("ab") as log:
            options = ["-Xms384m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
            command = [*options, "-cp", self._class_path, "kafka.Kafka", str(self._folder / "server.properties")]
            self._process = subprocess.Popen(
                [*self._java, *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=_die_with_parent,
            )
        deadline = time.monotonic() + READY_SECONDS
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._port), 1):
                return
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the broker did not start: {(self._folder / 'log').read_text()[-2000:]}")
            time.sleep(0.1)

    def kill(self) -> None:
        """A crash."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def freeze(self) -> None:
        """It accepts connections and answers nothing."""
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Goes on."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)


def main() -> int:
    """Runs a command beside a broker; its exit code."""
    jars, command = sys.argv[1], sys.argv[2:]
    with tempfile.TemporaryDirectory(prefix="reflex-kafka-") as folder:
        broker = Broker(Path(jars), Path(folder) / "kafka")
        try:
            broker.start()
            environment = {**os.environ, "REFLEX_TEST_KAFKA": broker.address, "REFLEX_TEST_KAFKA_JARS": jars}
            return subprocess.run(command, env=environment, check=False).returncode
        finally:
            broker.kill()


if __name__ == "__main__":
    sys.exit(main())
