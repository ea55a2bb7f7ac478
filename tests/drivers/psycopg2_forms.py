"""psycopg2: simple queries, everything a literal; COPY in text and CSV."""

import io

import psycopg2
import psycopg2.extras
from common import dsn, run

psycopg2.extras.register_uuid()
INSERT = "INSERT INTO items (id, n, note, ref) VALUES (%s, %s, %s, %s)"


def in_transaction(insert):
    def form(port, rows):
        connection = psycopg2.connect(dsn(port))
        try:
            with connection, connection.cursor() as cursor:
                insert(cursor, rows)
        finally:
            connection.close()

    return form


def strings(rows):
    return [(str(key), n, note, ref and str(ref)) for key, n, note, ref in rows]


def execute_loop(cursor, rows):
    for row in rows:
        cursor.execute(INSERT, row)


def prepared_batch(cursor, rows):
    cursor.execute("PREPARE ins (uuid, int, text, uuid) AS INSERT INTO items (id, n, note, ref) VALUES ($1, $2, $3, $4)")
    psycopg2.extras.execute_batch(cursor, "EXECUTE ins (%s, %s, %s, %s)", rows)
    cursor.execute("DEALLOCATE ins")


def unnest(cursor, rows):
    columns = [list(column) for column in zip(*strings(rows))]
    cursor.execute("INSERT INTO items (id, n, note, ref) SELECT * FROM unnest(%s::uuid[], %s::int[], %s::text[], %s::uuid[])", columns)


def multi_statement(cursor, rows):
    cursor.execute(b";".join(cursor.mogrify(INSERT, row) for row in rows))


def autocommit_multi_row(port, rows):
    connection = psycopg2.connect(dsn(port))
    try:
        connection.autocommit = True
        with connection.cursor() as cursor:
            values = b",".join(cursor.mogrify("(%s, %s, %s, %s)", row) for row in rows)
            cursor.execute(b"INSERT INTO items (id, n, note, ref) VALUES " + values)
    finally:
        connection.close()


def text_rows(rows):
    field = lambda value: "\\N" if value is None else str(value).replace("\\", "\\\\")
    return io.StringIO("".join("\t".join(map(field, row)) + "\n" for row in rows))


def csv_rows(rows):
    field = lambda value: "" if value is None else '"' + str(value).replace('"', '""') + '"'
    return io.StringIO("".join(",".join(map(field, row)) + "\n" for row in rows))


FORMS = {
    "execute_loop": ("literal", in_transaction(execute_loop)),
    "execute_loop_strings": ("literal", in_transaction(lambda cursor, rows: execute_loop(cursor, strings(rows)))),
    "executemany": ("literal", in_transaction(lambda cursor, rows: cursor.executemany(INSERT, rows))),
    "execute_values": ("literal", in_transaction(lambda cursor, rows: psycopg2.extras.execute_values(cursor, "INSERT INTO items (id, n, note, ref) VALUES %s", rows))),
    "execute_values_pages": ("literal", in_transaction(lambda cursor, rows: psycopg2.extras.execute_values(cursor, "INSERT INTO items (id, n, note, ref) VALUES %s", rows, page_size=2))),
    "execute_batch": ("literal", in_transaction(lambda cursor, rows: psycopg2.extras.execute_batch(cursor, INSERT, rows))),
    "execute_batch_prepared": ("literal", in_transaction(prepared_batch)),
    "multi_statement": ("literal", in_transaction(multi_statement)),
    "autocommit_multi_row": ("literal", autocommit_multi_row),
    "unnest": ("array", in_transaction(unnest)),
    "copy_expert": ("copy_text", in_transaction(lambda cursor, rows: cursor.copy_expert("COPY items (id, n, note, ref) FROM STDIN", text_rows(rows)))),
    "copy_from": ("copy_text", in_transaction(lambda cursor, rows: cursor.copy_from(text_rows(rows), "items", columns=("id", "n", "note", "ref")))),
    "copy_expert_csv": ("copy_csv", in_transaction(lambda cursor, rows: cursor.copy_expert("COPY items (id, n, note, ref) FROM STDIN WITH (FORMAT csv)", csv_rows(rows)))),
}

if __name__ == "__main__":
    run("psycopg2", FORMS)
