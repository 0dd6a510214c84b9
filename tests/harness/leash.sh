# Runs one command to its end and gives back its exit code, but no longer than the test process lives.
# Standard input is a pipe whose other end only the test process holds; when it closes first, all that runs here is killed.
# Must be the leader of its own process group: the whole group is what gets killed.
setpriv --pdeathsig KILL true 2>/dev/null && set -- setpriv --pdeathsig KILL "$@"
exec 3<&0 </dev/null
"$@" 3<&- &
command=$!
{
    read -r _
    kill -KILL 0
} <&3 >/dev/null 2>&1 &
watch=$!
wait "$command"
code=$?
kill -KILL "$watch" 2>/dev/null
exit "$code"
