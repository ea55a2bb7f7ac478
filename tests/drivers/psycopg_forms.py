"""psycopg 3: the extended protocol with binary and text keys, pipelines, COPY in every format."""

import json

import psycopg
from common import dsn, run

INSERT = "INSERT INTO items (id, n, note, ref) VALUES (%s, %s, %s, %s)"
UNNEST = "INSERT INTO items (id, n, note, ref) SELECT * FROM unnest({0}::uuid[], {0}::int[], {0}::text[], {0}::uuid[])"


def in_transaction(insert, **options):
    def form(port, rows):
        with psycopg.connect(dsn(port), **options) as connection, connection.cursor() as cursor:
            insert(cursor, rows)

    return form


def strings(rows):
    return [(str(key), n, note, ref and str(ref)) for key, n, note, ref in rows]


def execute_loop(cursor, rows, **options):
    for row in rows:
        cursor.execute(INSERT, row, **options)


def pipeline(cursor, rows):
    with cursor.connection.pipeline():
        execute_loop(cursor, rows)


def multi_row(cursor, rows):
    cursor.execute("INSERT INTO items (id, n, note, ref) VALUES " + ",".join(["(%s, %s, %s, %s)"] * len(rows)), [value for row in rows for value in row])


def unnest(holder):
    return lambda cursor, rows: cursor.execute(UNNEST.format(holder), [list(column) for column in zip(*rows)])


def documents(cursor, rows):
    values = [dict(zip(("id", "n", "note", "ref"), row)) for row in strings(rows)]
    sql = "INSERT INTO items (id, n, note, ref) SELECT id, n, note, ref FROM jsonb_to_recordset(%s::jsonb) AS r(id uuid, n int, note text, ref uuid)"
    cursor.execute(sql, [json.dumps(values)])


def copy(options, types=None):
    def insert(cursor, rows):
        with cursor.copy(f"COPY items (id, n, note, ref) FROM STDIN {options}") as copier:
            if types:
                copier.set_types(types)
            for row in rows:
                copier.write_row(row)

    return insert


def copy_csv(cursor, rows):
    field = lambda value: "" if value is None else '"' + str(value).replace('"', '""') + '"'
    with cursor.copy("COPY items (id, n, note, ref) FROM STDIN (FORMAT csv, HEADER)") as copier:
        copier.write("id,n,note,ref\n")
        for row in rows:
            copier.write(",".join(map(field, row)) + "\n")


FORMS = {
    "execute_loop": ("parameter", in_transaction(execute_loop)),
    "execute_loop_strings": ("parameter", in_transaction(lambda cursor, rows: execute_loop(cursor, strings(rows)))),
    "execute_prepare": ("parameter", in_transaction(lambda cursor, rows: execute_loop(cursor, rows, prepare=True))),
    "execute_threshold": ("parameter", in_transaction(execute_loop, prepare_threshold=2)),
    "execute_text": ("parameter", in_transaction(lambda cursor, rows: [cursor.execute("INSERT INTO items (id, n, note, ref) VALUES (%t, %t, %t, %t)", row) for row in rows])),
    "executemany": ("parameter", in_transaction(lambda cursor, rows: cursor.executemany(INSERT, rows))),
    "executemany_strings": ("parameter", in_transaction(lambda cursor, rows: cursor.executemany(INSERT, strings(rows)))),
    "executemany_returning": ("parameter", in_transaction(lambda cursor, rows: cursor.executemany(INSERT + " RETURNING id", rows, returning=True))),
    "executemany_autocommit": ("parameter", in_transaction(lambda cursor, rows: cursor.executemany(INSERT, rows), autocommit=True)),
    "pipeline": ("parameter", in_transaction(pipeline)),
    "multi_row": ("parameter", in_transaction(multi_row)),
    "client_binding": ("literal", in_transaction(execute_loop, cursor_factory=psycopg.ClientCursor)),
    "client_binding_executemany": ("literal", in_transaction(lambda cursor, rows: cursor.executemany(INSERT, rows), cursor_factory=psycopg.ClientCursor)),
    "unnest": ("array", in_transaction(unnest("%s"))),
    "unnest_binary": ("array", in_transaction(unnest("%b"))),
    "jsonb_to_recordset": ("json", in_transaction(documents)),
    "copy_rows": ("copy_text", in_transaction(copy(""))),
    "copy_csv": ("copy_csv", in_transaction(copy_csv)),
    "copy_binary": ("copy_binary", in_transaction(copy("(FORMAT binary)", ["uuid", "int4", "text", "uuid"]))),
}

if __name__ == "__main__":
    run("psycopg", FORMS)
