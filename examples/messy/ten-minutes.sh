#!/usr/bin/env bash
# From a file to a verified live topic, and then a file of later rows: the ten minutes of README.md.
#     KAFKA_BOOTSTRAP=... REDIS_URL=... examples/messy/ten-minutes.sh ROWS.csv TABLE [LATER.csv]
# TABLE is the folder for table.yaml; for real data, review that file before you create topics. LATER.csv has rows of new
# keys under the same header: the published table is compared with both files, one after the other.
set -euo pipefail
rows=$1 table=$2 later=${3:-}

streamer init "$rows" -o "$table"
sed -i.drafted "s|^  # live: {|  live: {|" "$table/table.yaml"   # the draft publishes cohorts alone; here we read `live`, too
streamer check --table "$table" --data "$rows" --skip-refused "$table/left-out.csv"
streamer topics create --table "$table" --shards 2
streamer worker --table "$table" 2>"$table/worker.log" & worker=$!
trap 'kill "$worker"; wait "$worker" || true' EXIT

verified() {   # what is published holds every law, and is the file as it is now
  for _ in $(seq 40); do
    streamer subscribe --table "$table" --live "$table/live.jsonl" --csv "$table/published.csv" --force >/dev/null
    streamer index --table "$table" --out "$table/private.csv" --force >/dev/null
    if streamer verify --table "$table" "$table/live.jsonl" --source "$1" --index "$table/private.csv"; then return; fi
    sleep 1
  done >"$table/verified.txt" 2>&1
  tail -n 3 "$table/verified.txt" >&2
  return 1
}

streamer produce "$rows" --table "$table" --skip-refused "$table/left-out.csv" --force   # as `check` listed them
verified "$rows"
if [ -n "$later" ]; then
  streamer produce "$later" --table "$table" --upsert
  awk 'FNR > 1 || NR == 1' "$rows" "$later" >"$table/now.csv"   # whether or not the first file's last line ends
  verified "$table/now.csv"
fi
tail -n 3 "$table/verified.txt"
head -n 4 "$table/published.csv"
