#!/usr/bin/env bash
# One person's change on its way: Postgres, Debezium, streamer, the JDBC sink, Postgres. Run it beside
#     docker compose --profile pipeline up --build
set -euo pipefail
cd "$(dirname "$0")"
connect=${CONNECT:-http://localhost:8083}
sql() { ${PSQL:-docker compose exec -T postgres psql -U postgres} -qAt -c "$1"; }
until curl -sf "$connect/connectors" >/dev/null; do sleep 1; done
for name in source sink; do curl -sSf -o /dev/null -X PUT -H "Content-Type: application/json" -d "@$name.json" "$connect/connectors/clinic-$name/config"; done
until [ "$(sql "SELECT count(*) >= 200 FROM clinic_anonymous")" = t ]; do sleep 1; done
sql "UPDATE clinic SET problem = 'gout' WHERE id = 7"
until sql "SELECT * FROM clinic_anonymous WHERE problem = 'gout'" | grep .; do sleep 1; done
