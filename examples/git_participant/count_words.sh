#!/bin/sh
# The work of the plain participant: reads a request, writes how many words its `text` has.
set -eu
words=$(tr '\n' ' ' | sed -n 's/.*"text"[[:space:]]*:[[:space:]]*"\([^"]*\)".*/\1/p' | wc -w)
printf '{"summary": "%d words were counted.", "words": %d}' "$words" "$words"
