#!/bin/sh
# Both roles of a plain participant, until it is stopped: a pass every few seconds, and now and then
# a request of its own; every other one contradicts itself, so that a person is asked.
#
#     forever.sh CLONE AGENT_ID
set -u
here=$(cd "$(dirname "$0")" && pwd)
agree='{"transcripts": ["Tom: the launch date is 3 May.", "Ann: right, the launch date is 3 May."]}'
differ='{"transcripts": ["Tom: the launch date is 3 May.", "Ann: no, the launch date is 9 May."]}'
pass=0
while :; do
    if [ $((pass % 180)) -eq 0 ]; then sh "$here/send.sh" "$1" human_pm facts.consolidate "$agree"; fi
    if [ $((pass % 180)) -eq 60 ]; then sh "$here/send.sh" "$1" human_pm facts.consolidate "$differ"; fi
    sh "$here/take.sh" "$1" "$2" text.count_words sh "$here/count_words.sh"
    pass=$((pass + 1))
    sleep 4
done
