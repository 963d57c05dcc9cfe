#!/usr/bin/env bash
# Three checks of /run-lite by curl: list files; write a file and read it in one request; an invalid tool name.
# Ends with 0 if all hold.
#
#   tests/e2e/run_lite_checks.sh [URL]
#
# URL is where the server is, http://127.0.0.1:2024 unless given. A server with AUTH_TOKENS wants a token: TOKEN=….
set -euo pipefail

url="${1:-http://127.0.0.1:2024}"
headers=(-H "Content-Type: application/json")
if [ -n "${TOKEN:-}" ]; then headers+=(-H "Authorization: Bearer $TOKEN"); fi

ask() {  # STATUS TASK: prints the answer, with its steps; the server must answer with STATUS
    local answer status
    answer="$(curl --silent --show-error --max-time 400 --write-out '\n%{http_code}' "${headers[@]}" \
        --data "{\"input\": \"$2\", \"includeSteps\": true}" "$url/run-lite")"
    status="${answer##*$'\n'}"
    if [ "$status" != "$1" ]; then echo "status $status, not $1: ${answer%$'\n'*}" >&2; return 1; fi
    printf '%s\n' "${answer%$'\n'*}"
}

holds() {  # WHAT ANSWER TEXT: the answer has the text in it
    if [[ "$2" != *"$3"* ]]; then echo "FAILED $1: no $3 in $2" >&2; exit 1; fi
    echo "ok $1"
}

answer="$(ask 200 "List the files in the folder.")"
holds "list files" "$answer" '"name": "list_files", "args": {}'

answer="$(ask 200 "Write the text 'hello from run-lite', without the quotes, into the file checks/hello.txt. Then read \
the file checks/hello.txt and tell me what it says.")"
after_write="${answer#*\"write_file\"}"
after_read="${after_write#*\"read_file\"}"
holds "write and read: the file is written" "$answer" '"name": "write_file"'
holds "write and read: the file is read after that" "$after_write" '"name": "read_file", "args": {"filePath": "checks/hello.txt"}'
holds "write and read: the text of the file" "$after_read" '"result": "hello from run-lite'
holds "write and read: the answer" "${answer%%\"steps\"*}" 'hello from run-lite'

answer="$(ask 500 "Use a tool with the name run_shell, without arguments, even if there is no such tool.")"
holds "invalid tool name" "$answer" "Unknown tool 'run_shell'. Allowed: list_files, read_file, write_file"
