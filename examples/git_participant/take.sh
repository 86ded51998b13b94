#!/bin/sh
# A plain participant: take one request for METHOD, let COMMAND do it, publish its answer.
#
#     take.sh CLONE AGENT_ID METHOD COMMAND [ARGUMENT…]
#
# COMMAND reads the request and writes the JSON object that is the result; if it fails, the answer
# is an error. What is not pushed did not happen: a pass that died is repeated from its claim.
set -eu
cd "$1"
agent=$2 method=$3
shift 3

publish() { # what others pushed meanwhile concerns other requests
    for _ in 1 2 3 4 5 6 7 8 9; do
        git push -q 2>/dev/null && return
        git pull -q --rebase
    done
    git push -q
}

git fetch -q
git reset -q --hard '@{upstream}'
manifest=.well-known/agents/$agent.json
if ! [ -e "$manifest" ]; then
    mkdir -p .well-known/agents
    printf '{"agent_id": "%s", "role": "plain participant", "capabilities": ["%s"], "methods": ["%s"],
 "version": "1.0", "inbox_path": "inbox/", "description": "A shell script."}\n' \
        "$agent" "$method" "$method" >"$manifest"
    git add "$manifest"
    git commit -q -m "Manifest of $agent"
    publish
fi

for request in processing/*.json inbox/*.json; do
    id=$(basename "$request" .json)
    if ! [ -f "$request" ] || [ -L "$request" ] || [ -e "outbox/res_$id.json" ]; then continue; fi
    grep -q "\"method\"[[:space:]]*:[[:space:]]*\"$method\"" "$request" || continue
    claim="Claimed $id by $agent"
    if [ "$request" = "inbox/$id.json" ]; then
        if [ -e "processing/$id.json" ]; then continue; fi
        git mv "$request" "processing/$id.json"
        git commit -q -m "$claim"
        if ! git push -q 2>/dev/null; then # whoever pushes first has it
            git fetch -q
            git reset -q --hard '@{upstream}'
            continue
        fi
    elif [ "$(git log -1 --format=%s -- "$request")" != "$claim" ]; then
        continue # another's
    fi
    if result=$("$@" <"processing/$id.json"); then
        error=null
    else
        result=null error='{"code": -32603, "message": "The command failed."}'
    fi
    printf '{"jsonrpc": "2.0", "result": %s, "error": %s, "id": "%s", "processed_by": "%s"}\n' \
        "$result" "$error" "$id" "$agent" >"outbox/res_$id.json"
    git mv "processing/$id.json" "archive/$id.json"
    git add "outbox/res_$id.json"
    git commit -q -m "Processed $id"
    publish
    echo "Processed $id"
    exit 0
done
