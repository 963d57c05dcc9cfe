#!/usr/bin/env bash
# The three checks of /run-lite by curl: list files, write a file, read it back. Ends with 0 where all hold.
#
#   tests/e2e/run_lite_checks.sh [URL]
#
# URL is where the server is, http://127.0.0.1:2024 unless given. A server with AUTH_TOKENS wants a token: TOKEN=….
set -euo pipefail

url="${1:-http://127.0.0.1:2024}"
headers=(-H "Content-Type: application/json")
if [ -n "${TOKEN:-}" ]; then headers+=(-H "Authorization: Bearer $TOKEN"); fi

ask() {  # TASK: prints the answer, with its steps
    local answer status
    answer="$(curl --silent --show-error --max-time 400 --write-out '\n%{http_code}' "${headers[@]}" \
        --data "{\"input\": \"$1\", \"includeSteps\": true}" "$url/run-lite")"
    status="${answer##*$'\n'}"
    if [ "$status" != 200 ]; then echo "status $status: ${answer%$'\n'*}" >&2; return 1; fi
    printf '%s\n' "${answer%$'\n'*}"
}

holds() {  # WHAT ANSWER TEXT: the answer has the text in it
    if [[ "$2" != *"$3"* ]]; then echo "FAILED $1: no $3 in $2" >&2; exit 1; fi
    echo "ok $1"
}

answer="$(ask "List the files in the folder.")"
holds "list files" "$answer" '"name": "list_files"'

answer="$(ask "Write the text 'hello from run-lite', without the quotes, into the file checks/hello.txt.")"
holds "write a file" "$answer" '"name": "write_file"'

answer="$(ask "Read the file checks/hello.txt and tell me what it says.")"
holds "read it back: the file" "$answer" '"result": "hello from run-lite'
holds "read it back: the answer" "${answer%%\"steps\"*}" 'hello from run-lite'
