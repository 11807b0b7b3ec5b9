-- The source: people.
CREATE TABLE clinic (
  id integer PRIMARY KEY, name text, phone text, age integer NOT NULL, bmi numeric(4, 1) NOT NULL, sex text NOT NULL, problem text
);
INSERT INTO clinic
SELECT i, 'Name ' || i, '555-' || i, i * 37 % 100, 15 + (i * 53 % 250) / 10.0, (ARRAY['Female', 'Male'])[1 + i % 2],
       (ARRAY['flu', 'asthma', 'ulcer', 'burn', 'sprain'])[1 + i * 7 % 5]
FROM generate_series(1, 200) i;

-- What Debezium is given of it, and the table by which an operator asks it for an incremental snapshot.
CREATE TABLE IF NOT EXISTS public.debezium_signal (id varchar(42) PRIMARY KEY, type varchar(32) NOT NULL, data varchar(2048));
CREATE PUBLICATION streamer_clinic FOR TABLE public.clinic, public.debezium_signal;

-- Where the sink writes, and what readers are given: QI groups of which they see at least k rows.
CREATE TABLE clinic_live (qi_group text, age_lo bigint, age_hi bigint, bmi_lo double precision, bmi_hi double precision, sex text, problem text, slot bigint, PRIMARY KEY (qi_group, slot));
CREATE VIEW clinic_anonymous AS SELECT * FROM clinic_live WHERE (qi_group, age_lo, age_hi, bmi_lo, bmi_hi, sex) IN
(SELECT qi_group, age_lo, age_hi, bmi_lo, bmi_hi, sex FROM clinic_live GROUP BY qi_group, age_lo, age_hi, bmi_lo, bmi_hi, sex HAVING count(*) >= 3);
