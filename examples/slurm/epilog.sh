#!/bin/sh
# Epilog of slurmd (Epilog=/etc/slurm/preflight-epilog.sh): reads the logs of a job that failed.
#
# Runs on the job's first node only, with the rights of the job's user, and leaves .preflight/slurm/JOB.txt in the job's
# folder. An epilog that fails drains the node, so this one always ends with 0, after PREFLIGHT_DEADLINE seconds at the
# latest.
job=$(scontrol --oneliner show job "$SLURM_JOB_ID" 2>/dev/null) || exit 0
field() { printf '%s\n' "$job" | tr ' ' '\n' | sed -n "s/^$1=//p" | head -n 1; }

[ "$(field BatchHost)" = "${SLURMD_NODENAME:-$(hostname -s)}" ] || exit 0
[ "$(field ExitCode)" != 0:0 ] || exit 0

export job
export preflight="${PREFLIGHT:-preflight}" folder="$(field WorkDir)" out="$(field StdOut)" err="$(field StdErr)"
[ "$err" != "$out" ] || err=
look='
  cd "$folder" || exit 0
  kept=.preflight/slurm
  mkdir -p "$kept/$SLURM_JOB_ID"
  [ ! -s "$kept/$SLURM_JOB_ID.txt" ] || exit 0
  printf "%s\n" "$job" >"$kept/$SLURM_JOB_ID/scontrol.txt"
  PREFLIGHT_RUN=.preflight timeout "${PREFLIGHT_DEADLINE:-60}" "$preflight" investigate \
    "$out" ${err:+"$err"} "$kept/$SLURM_JOB_ID" -o "$kept/$SLURM_JOB_ID.txt"
'
if [ "$(id -u)" -eq 0 ] && [ "${SLURM_JOB_USER:-root}" != root ]; then
  runuser -u "$SLURM_JOB_USER" -- sh -c "$look" >/dev/null 2>&1
else
  sh -c "$look" >/dev/null 2>&1
fi
exit 0
