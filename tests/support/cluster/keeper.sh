#!/usr/bin/env bash
# Hold a switch for the machines of a cluster, and remove what the cluster leaves, however the test process ends.
# keeper.sh FOLDER CGROUP: the folder of all files; the name of the control groups of all containers.
# Runs in a network namespace of its own, until its standard input ends. The test process has the other end.
set -euo pipefail
folder="$1" cgroup="$2"
ip link add name switch type bridge
ip link set switch up
echo up
read -r _ || true

# The machines end at the same time. Until their last process is gone, files and control groups may be in use.
for _ in $(seq 300); do
    groups="$(find /sys/fs/cgroup -depth -type d -path "/sys/fs/cgroup/*$cgroup*" 2> /dev/null || true)"
    if { [ -z "$groups" ] || xargs rmdir 2> /dev/null <<< "$groups"; } && rm -rf "$folder" 2> /dev/null; then
        exit 0
    fi
    sleep 0.1
done
echo "$folder or the control groups $cgroup could not be removed" >&2
exit 1
