"""asyncpg: binary parameters and arrays, executemany with and without a transaction, binary and CSV COPY."""

import asyncio
import io

import asyncpg
from common import COLUMNS, DATABASE, HOST, run

INSERT = "INSERT INTO items (id, n, note, ref) VALUES ($1, $2, $3, $4)"


def connected(insert, **options):
    async def go(port, rows):
        connection = await asyncpg.connect(host=HOST, port=port, user="postgres", database=DATABASE, **options)
        try:
            await insert(connection, rows)
        finally:
            await connection.close()

    return lambda port, rows: asyncio.run(go(port, rows))


def in_transaction(insert, **options):
    async def wrapped(connection, rows):
        async with connection.transaction():
            await insert(connection, rows)

    return connected(wrapped, **options)


async def execute_loop(connection, rows):
    for row in rows:
        await connection.execute(INSERT, *row)


async def executemany(connection, rows):
    await connection.executemany(INSERT, rows)


async def prepared_loop(connection, rows):
    statement = await connection.prepare(INSERT + " RETURNING n")
    for row in rows:
        await statement.fetchval(*row)


async def text_cast(connection, rows):
    rows = [(str(key), n, note, ref) for key, n, note, ref in rows]
    await connection.executemany("INSERT INTO items (id, n, note, ref) VALUES ($1::text::uuid, $2, $3, $4)", rows)


async def unnest(connection, rows):
    columns = [list(column) for column in zip(*rows)]
    await connection.execute("INSERT INTO items (id, n, note, ref) SELECT * FROM unnest($1::uuid[], $2::int[], $3::text[], $4::uuid[])", *columns)


async def script(connection, rows):
    literal = lambda value: "NULL" if value is None else "'" + str(value).replace("'", "''") + "'"
    await connection.execute(";".join(f"INSERT INTO items (id, n, note, ref) VALUES ({', '.join(map(literal, row))})" for row in rows))


async def copy_records(connection, rows):
    await connection.copy_records_to_table("items", records=rows, columns=COLUMNS)


async def copy_csv(connection, rows):
    field = lambda value: "" if value is None else '"' + str(value).replace('"', '""') + '"'
    data = "".join(",".join(map(field, row)) + "\n" for row in rows).encode()
    await connection.copy_to_table("items", source=io.BytesIO(data), columns=COLUMNS, format="csv")


FORMS = {
    "execute_loop": ("parameter", in_transaction(execute_loop)),
    "execute_loop_no_cache": ("parameter", in_transaction(execute_loop, statement_cache_size=0)),
    "executemany": ("parameter", in_transaction(executemany)),
    "executemany_no_transaction": ("parameter", connected(executemany)),
    "prepared_loop": ("parameter", in_transaction(prepared_loop)),
    "text_cast": ("parameter", in_transaction(text_cast)),
    "script": ("literal", in_transaction(script)),
    "unnest": ("array", in_transaction(unnest)),
    "copy_records": ("copy_binary", in_transaction(copy_records)),
    "copy_to_table_csv": ("copy_csv", in_transaction(copy_csv)),
}

if __name__ == "__main__":
    run("asyncpg", FORMS)
