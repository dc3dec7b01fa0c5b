"""The views ``finetune_results``, with a column for each axis of the trading workload, and ``finetune_runs``.

SQL that was written for the tables of these names, up to version 4, works on them: the columns and their types are the
same. Nothing of scalable reads them. ``buys`` is the metric of this name where it is a count.
"""

from __future__ import annotations

from sqlalchemy import Connection

SQLITE_AXES = """
CREATE VIEW finetune_results AS
SELECT run_key, name, sweep, compared AS factor, variant,
       CAST(json_extract(axes, '$.asset') AS TEXT) AS asset,
       CAST(CASE json_type(axes, '$.fold') WHEN 'integer' THEN json_extract(axes, '$.fold') END AS INTEGER) AS fold,
       CAST(CASE WHEN json_type(axes, '$.cost_bps') IN ('integer', 'real')
            THEN json_extract(axes, '$.cost_bps') END AS REAL) AS cost_bps,
       metrics, value,
       CAST(CASE WHEN json_type(metrics, '$.buys') IN ('integer', 'real') AND json_extract(metrics, '$.buys') >= 0
            AND json_extract(metrics, '$.buys') = CAST(json_extract(metrics, '$.buys') AS INTEGER)
            THEN json_extract(metrics, '$.buys') END AS INTEGER) AS buys,
       elapsed_s, run_status, attempt, error, code_fingerprint, config_fingerprint, data_fingerprint, worker, marked,
       run_id, written_at, digest
FROM scalable_rows
"""

# A metric may hold escapes that PostgreSQL refuses to decode, e.g. of the character 0. With a slash in the place of the
# u they are texts that it reads; the number beside them is the same.
POSTGRESQL_AXES = r"""
CREATE VIEW finetune_results AS
SELECT run_key, name, sweep, compared AS factor, variant,
       axes::json ->> 'asset' AS asset,
       CASE WHEN json_typeof(axes::json -> 'fold') = 'number' AND axes::json ->> 'fold' ~ '^-?[0-9]+$'
            THEN (axes::json ->> 'fold')::bigint END AS fold,
       CASE WHEN json_typeof(axes::json -> 'cost_bps') = 'number'
            THEN (axes::json ->> 'cost_bps')::double precision END AS cost_bps,
       metrics, value,
       CASE WHEN strpos(metrics, '"buys":') > 0 AND json_typeof(replace(metrics, '\u', '\/')::json -> 'buys') = 'number'
            THEN CASE WHEN (replace(metrics, '\u', '\/')::json ->> 'buys')::numeric BETWEEN 0 AND 9223372036854775807
                       AND mod((replace(metrics, '\u', '\/')::json ->> 'buys')::numeric, 1) = 0
                      THEN (replace(metrics, '\u', '\/')::json ->> 'buys')::numeric::bigint END END AS buys,
       elapsed_s, run_status, attempt, error, code_fingerprint, config_fingerprint, data_fingerprint, worker, marked,
       run_id, written_at, digest
FROM scalable_rows
"""

RUNS = """
CREATE VIEW finetune_runs AS
SELECT id, sweep, started, ended, status, expected, target, reason, digest FROM scalable_runs
"""

VIEWS = ("finetune_results", "finetune_runs")


def create_views(connection: Connection) -> None:
    for statement in (POSTGRESQL_AXES if connection.dialect.name == "postgresql" else SQLITE_AXES, RUNS):
        connection.exec_driver_sql(statement)
