#!/bin/sh
# Put a request into the inbox of a bus, and print its id.
#
#     send.sh CLONE SENDER_ID METHOD PARAMS [PARENT_ID]
#
# PARAMS is a JSON object. The answer will be outbox/res_ID.json, after `git pull` in the clone.
set -eu
cd "$1"
id=$(date -u +%Y%m%dT%H%M%SZ)-$$
parent=${5:+", \"parent_id\": \"$5\""}
git fetch -q
git reset -q --hard '@{upstream}'
printf '{"jsonrpc": "2.0", "method": "%s", "params": %s, "id": "%s", "sender_id": "%s",
 "timestamp": "%s"%s}\n' "$3" "$4" "$id" "$2" "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$parent" \
    >"inbox/$id.json"
git add "inbox/$id.json"
git commit -q -m "Submitted $id"
git push -q 2>/dev/null || { git pull -q --rebase && git push -q; }
echo "$id"
