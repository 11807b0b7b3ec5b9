#!/bin/sh
# Kafka's ACLs for the topics of one table, with least privilege. Call it once per table, as an administrator of Kafka,
# before `streamer topics create`:
#
#   KAFKA_ACLS="kafka-acls --bootstrap-server broker.example:9093 --command-config admin.properties" \
#     examples/security/acls.sh TABLE
#
# The users are those of the .properties files beside this one. `changes` holds raw values: producer, worker and operator
# may read it, and nobody else. `control` holds the shards' secrets, which tell rows that are alike apart: only the worker
# may read it, and the operator writes it. `live` shows a reader who keeps it the history of the table (see
# docs/explanation/guarantees.md), which `sealed` hides: so each has readers of its own. Under `form: lossy-join` the
# topics qit and stt stand for live.
set -eu
table=${1:?the name of the table}
outputs="--topic $table.live --topic $table.qit --topic $table.stt"

allow() {
  user=$1
  shift
  # shellcheck disable=SC2086
  ${KAFKA_ACLS:?the command kafka-acls with its server} --add --allow-principal "User:$user" "$@"
}

# Writes row changes, and statements in transactions; reads the last ones, to write keys in the same form.
allow producer --operation Write --operation Read --topic "$table.changes"
allow producer --operation Write --operation Describe --transactional-id "$table.changes-produce-" \
  --resource-pattern-type prefixed

# Keeps the table; also for load and reload. Its transactions are named after the shards, <table>-shard-0 and so on.
allow worker --operation Describe --topic "$table." --resource-pattern-type prefixed
allow worker --operation Read --topic "$table.changes" --topic "$table.control"
# shellcheck disable=SC2086
allow worker --operation Read --operation Write --topic "$table.positions" --topic "$table.sealed" $outputs
# Whether the input is compacted: a message may then be gone that was read.
allow worker --operation DescribeConfigs --topic "$table.changes"
# A shard keeps its secret, and the ends of its sealed epochs, in the control topic.
allow worker --operation Write --topic "$table.dead-letters" --topic "$table.control"
allow worker --operation Read --group "streamer-$table" --group "$table-outlet"
allow worker --operation Write --operation Describe --transactional-id "$table-shard-" --resource-pattern-type prefixed

# Reads the published table, and nothing else.
# shellcheck disable=SC2086
allow reader --operation Read $outputs
allow sealed-reader --operation Read --topic "$table.sealed"

# Makes topics, looks (status, dead-letters), asks the shards for something (rebuild, skip, end-snapshot, dead-letters
# retry), acknowledges dead letters, and writes deletions (erase).
allow operator --operation Create --operation Describe --operation DescribeConfigs --topic "$table." \
  --resource-pattern-type prefixed
allow operator --operation Read --topic "$table.changes" --topic "$table.positions" --topic "$table.dead-letters"
allow operator --operation Write --topic "$table.control" --topic "$table.changes" --topic "$table.dead-letters"
allow operator --operation Describe --group "streamer-$table"
