-- The source: people.
CREATE TABLE clinic (
  id integer PRIMARY KEY, name text, phone text, age integer NOT NULL, bmi numeric(4, 1) NOT NULL, sex text NOT NULL, problem text
);
INSERT INTO clinic
SELECT i, 'Name ' || i, '555-' || i, i * 37 % 100, 15 + (i * 53 % 250) / 10.0, (ARRAY['Female', 'Male'])[1 + i % 2],
       (ARRAY['flu', 'asthma', 'ulcer', 'burn', 'sprain'])[1 + i * 7 % 5]
FROM generate_series(1, 200) i;

-- What Debezium is given of it, and the table by which an operator asks it for an incremental snapshot.
-- Run once by the table's owner, on a server with wal_level = logical.
-- With this, a change has the whole row before it, and values that Postgres stores apart (TOAST):
ALTER TABLE "public"."clinic" REPLICA IDENTITY FULL;
-- Each partition needs that, too: run this block again whenever one is attached or made.
DO $$ DECLARE part regclass; BEGIN
  IF EXISTS (SELECT FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhparent
             WHERE i.inhparent = '"public"."clinic"'::regclass AND c.relkind = 'r') THEN
    RAISE EXCEPTION 'tables inherit from "public"."clinic": their changes would come under their own names, and be lost. '
      'Partition the table instead, or capture each of them as a table of its own';
  END IF;
  FOR part IN SELECT relid FROM pg_partition_tree('"public"."clinic"'::regclass) LOOP
    EXECUTE format('ALTER TABLE %s REPLICA IDENTITY FULL', part);
  END LOOP;
END $$;
-- A row in this table starts an incremental snapshot:
CREATE TABLE IF NOT EXISTS "public"."debezium_signal" (id varchar(42) PRIMARY KEY, type varchar(32) NOT NULL, data varchar(2048));
-- Not now, but if rows were refused or missed that the source has right: this has all rows read again.
-- The id is a new one each time. Rows that were deleted meanwhile go by `streamer reload` only.
-- INSERT INTO "public"."debezium_signal" VALUES ('again-1', 'execute-snapshot', '{"type":"incremental","data-collections":["public.clinic"]}');
-- Changes of partitions come under the table's own name:
CREATE PUBLICATION "streamer_clinic" FOR TABLE "public"."clinic", "public"."debezium_signal" WITH (publish_via_partition_root = true);
-- No message tells that a partition was truncated, dropped or detached: delete its rows before, or reload.
-- The connector's user needs REPLICATION, and:
-- GRANT USAGE ON SCHEMA "public" TO ...;
-- GRANT SELECT ON "public"."clinic" TO ...; GRANT SELECT, INSERT ON "public"."debezium_signal" TO ...;

-- Where the sink writes, and what readers are given: QI groups of which they see at least k rows.
CREATE TABLE "clinic_live" (
  "qi_group" text NOT NULL,
  "slot" bigint NOT NULL,
  "age_lo" bigint NOT NULL,
  "age_hi" bigint NOT NULL,
  "bmi_lo" numeric(3, 1) NOT NULL,
  "bmi_hi" numeric(3, 1) NOT NULL,
  "sex" text NOT NULL,
  "problem" text,
  PRIMARY KEY ("qi_group", "slot")
);
CREATE VIEW "clinic_anonymous" AS
SELECT r."qi_group", r."age_lo", r."age_hi", r."bmi_lo", r."bmi_hi", r."sex", r."problem"
FROM "clinic_live" AS r
JOIN (
  SELECT "qi_group", "age_lo", "age_hi", "bmi_lo", "bmi_hi", "sex" FROM "clinic_live"
  GROUP BY "qi_group", "age_lo", "age_hi", "bmi_lo", "bmi_hi", "sex"
  HAVING count(*) >= 3
) AS g
ON r."qi_group" = g."qi_group"
  AND r."age_lo" = g."age_lo"
  AND r."age_hi" = g."age_hi"
  AND r."bmi_lo" = g."bmi_lo"
  AND r."bmi_hi" = g."bmi_hi"
  AND r."sex" = g."sex";
-- The sink's user needs the first of these (in Postgres, and USAGE on the schema), its readers the second:
-- GRANT SELECT, INSERT, UPDATE, DELETE ON "clinic_live" TO ...; GRANT SELECT ON "clinic_anonymous" TO ...;
