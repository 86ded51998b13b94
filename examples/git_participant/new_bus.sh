#!/bin/sh
# Make a bare repository that is a bus: its folders, its settings, and no requests.
#
#     new_bus.sh REPOSITORY
set -eu
if [ -e "$1/HEAD" ]; then exit 0; fi
git init -q --bare "$1.new"
git -C "$1.new" symbolic-ref HEAD refs/heads/main
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git clone -q "$1.new" "$work" 2>/dev/null
cd "$work"
mkdir -p inbox processing outbox archive .well-known/agents config
touch inbox/.gitkeep processing/.gitkeep outbox/.gitkeep archive/.gitkeep .well-known/agents/.gitkeep
echo '{"a2a_environment_version": "1.0", "jsonrpc_version": "2.0"}' >config/a2a-environment.json
printf '%s\n' '*.json text eol=lf' 'outbox/** -text' >.gitattributes
printf '%s\n' '*.tmp' '*.swp' '*~' '.DS_Store' '.env' '*.log' '.a2a-outbox-staging/' >.gitignore
git add -A
git -c user.name=Bus -c user.email=bus@bus.invalid -c commit.gpgsign=false commit -q -m "A bus"
git push -q origin HEAD:refs/heads/main
cd /
mv "$1.new" "$1"
