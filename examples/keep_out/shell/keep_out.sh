#!/bin/sh
# keep-out: no tool call may mention secrets.txt, and /keep-out says so.
rule='no tool call may mention secrets.txt'
about='"extension":{"name":"keep-out","version":"0.1.0"}'
command='{"name":"keep-out","description":"Say what is off limits."}'

reply() { printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$1"; }

while IFS= read -r line; do
    # Hosts write what a message is before its params. Only there is it safe to search without parsing JSON.
    head=${line%%\"params\"*}
    case $head in *\"id\":*\"method\":*) ;; *) continue ;; esac # an event, or nothing for us
    id=${head#*\"id\":} id=${id%%,*}
    method=${head#*\"method\":*\"} method=${method%%\"*}
    case $method in
    initialize)
        offers="{\"commands\":[$command],\"hooks\":[\"tool_call\"]}"
        reply "\"result\":{\"protocol_version\":1,$about,\"registrations\":$offers}" ;;
    command/execute)
        case $line in
        *'"command":"keep-out"'*) reply "\"result\":{\"content\":\"$rule\"}" ;;
        *) reply '"result":{"content":"unknown command"}' ;;
        esac ;;
    command/complete) reply '"result":{"completions":[]}' ;;
    hook)
        case $line in
        *secrets.txt*) reply "\"result\":{\"action\":\"block\",\"reason\":\"$rule\"}" ;;
        *) reply '"result":{"action":"continue"}' ;;
        esac ;;
    ping) reply '"result":{}' ;;
    shutdown) reply '"result":{}'; exit ;;
    *) reply '"error":{"code":-32601,"message":"there is no such method"}' ;;
    esac
done
