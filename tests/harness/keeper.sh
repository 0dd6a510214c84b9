# Keeps one broker for a test process. Arguments: the broker's folder, which is made here, then the command that starts it.
# Answers "ready" first. Orders come line by line on standard input, whose other end only the test process holds:
#   start   run the command, answer its process id
#   kill    SIGKILL it, answer "gone" once it is
# When the pipe closes, however the test process ended, the command is killed and the folder removed.
trap '' PIPE # an answer that nobody reads must not end the keeper before its work is done
folder=${1:?}
shift
# where there is setpriv, the broker also dies with a killed keeper
setpriv --pdeathsig KILL true 2>/dev/null && set -- setpriv --pdeathsig KILL "$@"
broker=
mkdir -m 700 "$folder" || exit
echo ready

end_broker() {
    [ -n "$broker" ] || return 0
    kill -KILL "$broker" 2>/dev/null
    wait "$broker" 2>/dev/null
    broker=
}

while read -r order; do
    case $order in
    start)
        end_broker
        "$@" </dev/null >>"$folder/broker.log" 2>&1 &
        broker=$!
        echo "$broker"
        ;;
    kill)
        end_broker
        echo gone
        ;;
    esac
done

end_broker
rm -rf "$folder"
