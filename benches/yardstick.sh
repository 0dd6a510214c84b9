#!/usr/bin/env bash
# Reflex beside the Kafka Streams yardstick: one broker, one topic, one thread each, by turns; ratios of the medians.
#
#   benches/yardstick.sh [EVENTS [ROUNDS]]        default 4000000 and 3: about five minutes on two cores
#
# YARDSTICK  folder of the yardstick's sources (default ../shared/bench/kafka-streams beside this repository)
# REFLEX     the program (default target/release/reflex, built where it is missing)
#
# Needs JDK 17 and Maven. Everything happens on loopback and below target/tmp; what was started is ended by its pid.
# CPU is user and system time of the whole process, the start of the JVM included: the more events, the less it counts.
set -euo pipefail
cd "$(dirname "$0")/.."
events=${1:-4000000} rounds=${2:-3}
yardstick=${YARDSTICK:-../shared/bench/kafka-streams}
reflex=${REFLEX:-target/release/reflex}
partitions=8 topic=yardstick-events
# No step takes longer, or something is wrong.
longest=180

[ -f "$yardstick/pom.xml" ] || { echo "no yardstick at $yardstick: set YARDSTICK" >&2; exit 66; }
command -v mvn >/dev/null && command -v java >/dev/null || { echo "needs JDK 17 and Maven" >&2; exit 69; }
[ -x "$reflex" ] || cargo build --release

mkdir -p target/tmp
work=$(mktemp -d "$PWD/target/tmp/yardstick-XXXXXX")
broker=
finish() {
  if [ -n "$broker" ]; then
    kill "$broker" 2>/dev/null || true
    wait "$broker" 2>/dev/null || true
  fi
  rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

# --- The broker: the jars and settings of the tests -------------------------------------------------------------------

free_port() {
  local port
  while :; do
    port=$((16384 + RANDOM % 16384))
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || { echo "$port"; return; }
  done
}

start_broker() {
  local jars=target/tmp/kafka/jars port controller
  if [ ! -e target/tmp/kafka/.complete ]; then
    jars=$work/jars
    mvn -q -B -f tests/harness/pom.xml dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$jars"
  fi
  port=$(free_port) controller=$(free_port)
  cat >"$work/server.properties" <<PROPERTIES
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$controller
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$controller
advertised.listeners=PLAINTEXT://127.0.0.1:$port
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=$work/data
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
PROPERTIES
  local run=(java -Dorg.slf4j.simpleLogger.defaultLogLevel=error -cp "$jars/*")
  "${run[@]}" kafka.tools.StorageTool format -t "$(head -c 16 /dev/urandom | base64 | tr '+/' '-_' | cut -c1-22)" \
    -c "$work/server.properties" >"$work/format.log" 2>&1 || { cat "$work/format.log" >&2; exit 69; }
  "${run[@]}" -Xms512m -Xmx512m -XX:+UseSerialGC kafka.Kafka "$work/server.properties" >"$work/broker.log" 2>&1 &
  broker=$!
  bootstrap=127.0.0.1:$port
  for _ in $(seq 300); do
    kill -0 "$broker" 2>/dev/null || { tail -5 "$work/broker.log" >&2; exit 69; }
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && return
    sleep 0.1
  done
  echo "the broker did not answer within 30 s" >&2
  exit 69
}

# --- The yardstick ----------------------------------------------------------------------------------------------------

build_yardstick() {
  classes="$work/yardstick/target/classes:$work/yardstick/target/libs/*"
  cp -r "$yardstick" "$work/yardstick"
  chmod -R u+w "$work/yardstick"
  mvn -q -B -f "$work/yardstick/pom.xml" package dependency:copy-dependencies \
    -DoutputDirectory="$work/yardstick/target/libs" >&2
}

# --- Measuring --------------------------------------------------------------------------------------------------------

# Runs a command; its output goes to $work/out, CPU seconds of its process to the variable cpu.
timed() {
  local TIMEFORMAT='%U %S'
  { time timeout "$longest" "$@" >"$work/out" 2>"$work/err"; } 2>"$work/time" || { cat "$work/out" "$work/err" >&2; exit 1; }
  cpu=$(awk '{ print $1 + $2 }' "$work/time")
}

median() { sort -g "$1" | awk '{ a[NR] = $1 } END { print (NR % 2) ? a[(NR + 1) / 2] : (a[NR / 2] + a[NR / 2 + 1]) / 2 }'; }

note() { # NAME EVENTS_PER_S
  local us
  us=$(awk -v cpu="$cpu" -v all="$all" 'BEGIN { printf "%.3f", cpu * 1e6 / all }')
  echo "$2" >>"$work/$1.speed"
  echo "$us" >>"$work/$1.cpu"
  printf '%-10s %9.0f events/s  %6.2f us CPU an event\n' "$1" "$2" "$us"
}

start_broker
build_yardstick
export REFLEX_BOOTSTRAP_SERVERS=$bootstrap REFLEX_DATA_DIR=$work/data-dir
# Before the load: the engine takes events stamped by the broker only, the loader leaves a topic that exists as it is.
REFLEX_TOPICS_EVENTS=$topic "$reflex" topics apply --dev --partitions "$partitions" >/dev/null
loaded=$(java -Xmx1g -cp "$classes" yardstick.Load "$bootstrap" "$topic" "$partitions" "$events" 7 2>/dev/null)
read -r _ all _ _ _ expected <<<"$loaded"
echo "$loaded; $rounds rounds, one thread each, $partitions partitions"
for round in $(seq "$rounds"); do
  timed java -Xmx2g -cp "$classes" yardstick.StreamsReflex "$bootstrap" "$topic" "$partitions" 1 "$work/state-$round"
  read -r _ _ _ _ _ speed _ found _ < <(grep events_per_s "$work/out")
  [ "$found" = "$expected" ] || echo "the yardstick found $found overrides instead of $expected" >&2
  note yardstick "$speed"
  # Ends with 1 where it finds other overrides than expected.
  timed "$reflex" bench --topic "$topic" --expect "$expected" -o json
  note reflex "$(sed -n 's/.*"engine":{[^}]*"events_per_s":\([0-9.]*\).*/\1/p' "$work/out")"
done
awk -v a="$(median "$work/reflex.speed")" -v b="$(median "$work/yardstick.speed")" \
  -v c="$(median "$work/reflex.cpu")" -v d="$(median "$work/yardstick.cpu")" 'BEGIN {
    printf "medians: reflex %.0f events/s, %.2f us; yardstick %.0f events/s, %.2f us\n", a, c, b, d
    printf "ratios:  %.2f x the throughput, %.2f x the CPU an event (1/%.1f)\n", a / b, c / d, d / c
  }'
