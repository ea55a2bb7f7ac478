"""SQLAlchemy 2 on psycopg2, psycopg and asyncpg: Core executemany, multi-row values, and the ORM's add_all."""

import asyncio
import uuid
from typing import Optional

from common import COLUMNS, run, url
from sqlalchemy import create_engine, insert
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
from sqlalchemy.pool import NullPool


class Base(DeclarativeBase):
    pass


class Item(Base):
    __tablename__ = "items"
    id: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    n: Mapped[int]
    note: Mapped[str]
    ref: Mapped[Optional[uuid.UUID]]


def values(rows):
    return [dict(zip(COLUMNS, row)) for row in rows]


def core_executemany(connection, rows):
    connection.execute(insert(Item.__table__), values(rows))


def core_values(connection, rows):
    connection.execute(insert(Item.__table__).values(values(rows)))


def core_loop(connection, rows):
    for row in values(rows):
        connection.execute(insert(Item.__table__).values(row))


def orm_bulk(connection, rows):
    with Session(connection) as session:
        session.execute(insert(Item), values(rows))
        session.flush()


def orm_add_flush_each(connection, rows):
    with Session(connection) as session:
        for row in values(rows):
            session.add(Item(**row))
            session.flush()
            session.expunge_all()


def orm_add_all(connection, rows):
    with Session(connection) as session:
        session.add_all([Item(**row) for row in values(rows)])
        session.flush()


def on(driver, insert_rows):
    if driver != "asyncpg":

        def form(port, rows):
            with create_engine(url(port, f"postgresql+{driver}"), poolclass=NullPool).begin() as connection:
                insert_rows(connection, rows)

        return form

    async def go(port, rows):
        async with create_async_engine(url(port, "postgresql+asyncpg"), poolclass=NullPool).begin() as connection:
            await connection.run_sync(insert_rows, rows)

    return lambda port, rows: asyncio.run(go(port, rows))


WAYS = {
    "core_executemany": core_executemany,
    "core_values": core_values,
    "core_loop": core_loop,
    "orm_bulk_insert": orm_bulk,
    "orm_add_flush_each": orm_add_flush_each,
    "orm_add_all": orm_add_all,
}
CARRIERS = {"psycopg2": "literal", "psycopg": "parameter", "asyncpg": "parameter"}
FORMS = {f"{driver}_{name}": (carrier, on(driver, way)) for driver, carrier in CARRIERS.items() for name, way in WAYS.items()}

if __name__ == "__main__":
    run("sqlalchemy", FORMS)
