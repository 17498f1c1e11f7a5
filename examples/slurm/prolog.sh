#!/bin/sh
# Prolog of slurmd (Prolog=/etc/slurm/preflight-prolog.sh): looks at the node before a job starts on it.
#
# What is seen is left in PREFLIGHT_NODES, one file per job and node. A prolog that fails drains the node and puts the job
# back into the queue, so this one refuses a node only where PREFLIGHT_STRICT=1 says so, and never takes longer than
# PREFLIGHT_DEADLINE seconds.
preflight=${PREFLIGHT:-preflight}
nodes=${PREFLIGHT_NODES:-/var/log/preflight}
mkdir -p "$nodes" || exit 0
report="$nodes/$SLURM_JOB_ID-${SLURMD_NODENAME:-$(hostname -s)}.json"
timeout "${PREFLIGHT_DEADLINE:-20}" "$preflight" investigate doctor --quiet -o "$report" >/dev/null 2>&1
code=$?
# 1 is NO-GO: something on this node is wrong. Anything else (a deadline, no preflight here) says nothing of the node.
if [ "$code" -eq 1 ] && [ "${PREFLIGHT_STRICT:-0}" = 1 ]; then
  echo "preflight: this node is not fit to train, see $report" >&2
  exit 1
fi
exit 0
