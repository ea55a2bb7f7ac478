"""SQLAlchemy 2 where it matches the rows that RETURNING gives back to its objects: insertmanyvalues, on psycopg2, psycopg and asyncpg.

Without arguments untwin must show the keys as they were sent, and every form has to end well. With the argument `stored` it must
not, and twins of another page are what SQLAlchemy cannot match.
"""

import asyncio
import itertools
import sys
import traceback
import uuid
import warnings

import psycopg
from common import DIRECT, THROUGH, A, B, C, dsn, url
from sqlalchemy import BigInteger, create_engine, insert, text
from sqlalchemy.exc import InvalidRequestError, SAWarning
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

D, E = (uuid.UUID(f"{digit * 8}-1111-4111-8111-111111111111") for digit in "de")
# Keys, and the rows of a page. Twins of the first row in its own page, in the next one, two there, and alone there.
BATCHES = {
    "no_twin": ([A, B, C, D, E], 3),
    "same_page": ([A, B, A, D, E], 3),
    "other_page": ([A, B, C, D, A], 3),
    "two_in_a_page": ([A, B, C, A, A], 3),
    "last_alone": ([A, B, C, A], 3),
    "default_page": ([A, B, C, D, A], 1000),
}


class Base(DeclarativeBase):
    pass


class Made(Base):
    """The client makes the key, the server another column: the key is the sentinel."""

    __tablename__ = "made"
    __mapper_args__ = {"eager_defaults": True}
    id: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    n: Mapped[int]
    serial: Mapped[int] = mapped_column(BigInteger, server_default=text("nextval('made_serial')"))


class Numbered(Base):
    """The server makes the primary key, the client a unique one."""

    __tablename__ = "numbered"
    pk: Mapped[int] = mapped_column(primary_key=True)
    id: Mapped[uuid.UUID] = mapped_column(unique=True)
    n: Mapped[int]


def values(keys):
    return [{"id": key, "n": n} for n, key in enumerate(keys)]


# Each way gives (n, what the server made) as the client sees it, in the order of the batch.


def add_all(model, made):
    def way(connection, keys):
        with Session(connection, expire_on_commit=False) as session:
            objects = [model(**row) for row in values(keys)]
            session.add_all(objects)
            session.commit()
            return [(thing.n, vars(thing)[made]) for thing in objects]

    return way


def core(model, made, in_order):
    def way(connection, keys):
        table = model.__table__
        statement = insert(table).returning(table.c.n, table.c[made], table.c.id, sort_by_parameter_order=in_order)
        rows = connection.execute(statement, values(keys)).all()
        connection.commit()
        return [(row[0], row[1]) for row in rows]

    return way


def orm_insert(connection, keys):
    with Session(connection, expire_on_commit=False) as session:
        things = session.scalars(insert(Made).returning(Made, sort_by_parameter_order=True), values(keys)).all()
        session.commit()
        return [(thing.n, thing.serial) for thing in things]


WAYS = {
    "add_all": ("made", "serial", add_all(Made, "serial")),
    "insert_returning_sorted": ("made", "serial", core(Made, "serial", True)),
    "insert_returning": ("made", "serial", core(Made, "serial", False)),
    "orm_insert_returning": ("made", "serial", orm_insert),
    "numbered_add_all": ("numbered", "pk", add_all(Numbered, "pk")),
    "numbered_insert_returning": ("numbered", "pk", core(Numbered, "pk", True)),
}


def runner(driver, loop):
    """Runs a way on an engine of the driver, which is kept."""
    target = url(THROUGH, f"postgresql+{driver}")
    if driver != "asyncpg":
        engine = create_engine(target)

        def run(page, way, keys):
            with engine.connect().execution_options(insertmanyvalues_page_size=page) as connection:
                return way(connection, keys)

        return run
    async_engine = create_async_engine(target)

    async def go(page, way, keys):
        async with async_engine.connect() as connection:
            await connection.execution_options(insertmanyvalues_page_size=page)
            return await connection.run_sync(way, keys)

    return lambda page, way, keys: loop.run_until_complete(go(page, way, keys))


def twins_by_row(keys, page):
    """For each row that repeats a key of its own page: the row that SQLAlchemy takes for it."""
    shown = {}
    for n, key in enumerate(keys):
        shown.setdefault((n // page, key), n)
    return {n: shown[n // page, key] for n, key in enumerate(keys) if shown[n // page, key] != n}


def matches_by_key(name):
    """Whether the key is how SQLAlchemy finds rows: in the others by a number of the server, or not at all."""
    return name in ("add_all", "insert_returning_sorted", "orm_insert_returning")


def check(direct, run, name, batch):
    """The complaint, or None. `direct` is a connection past untwin."""
    keys, page = BATCHES[batch]
    table, made, way = WAYS[name]
    direct.execute("TRUNCATE made, numbered")
    seen = run(page, way, keys)
    stored = direct.execute(f"SELECT id, n, {made} FROM {table} ORDER BY n").fetchall()
    if [n for _, n, _ in stored] != list(range(len(keys))) or len({key for key, _, _ in stored}) != len(keys):
        return f"stored: {stored}"
    if any(stored[keys.index(key)][0] != key for key in keys):
        return f"the first row lost its key: {stored}"
    truth = {n: (n, number) for _, n, number in stored}
    taken = twins_by_row(keys, page) if matches_by_key(name) else {}
    if name == "orm_insert_returning":  # A session has one object for each key.
        taken = twins_by_row(keys, len(keys))
    expected = [truth[taken.get(n, n)] for n in range(len(keys))]
    if name == "add_all":  # An object has its own n; what the server made is that of the row taken for it.
        expected = [(n, number) for n, (_, number) in enumerate(expected)]
    if name == "insert_returning":  # In any order.
        seen, expected = sorted(seen), sorted(expected)
    return None if seen == expected else f"the client sees {seen}, stored are {expected}"


def main(fails):
    failures = 0
    loop = asyncio.new_event_loop()
    direct = psycopg.connect(dsn(DIRECT), autocommit=True)
    for driver in ("psycopg2", "psycopg", "asyncpg"):
        run = runner(driver, loop)
        for name, batch in itertools.product(WAYS, BATCHES):
            try:
                complaint = check(direct, run, name, batch)
                if complaint is None and fails(name, batch):
                    complaint = "ends well"
            except InvalidRequestError as error:
                expected = fails(name, batch) and "Can't match sentinel" in str(error)
                complaint = None if expected else str(error)
            except Exception:
                complaint = traceback.format_exc(limit=-3).strip().replace("\n", "\n    ")
            failures += complaint is not None
            form = f"{driver} {name} {batch}"
            print(f"ok {form}" if complaint is None else f"FAIL {form}: {complaint}", flush=True)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    # Two objects of one identity: that is what the application made.
    warnings.simplefilter("ignore", SAWarning)
    if sys.argv[1:] == ["stored"]:
        main(lambda name, batch: matches_by_key(name) and batch in ("other_page", "two_in_a_page", "last_alone"))
    else:
        main(lambda name, batch: False)
