"""Django on psycopg 3, with client-side and server-side binding: bulk_create in its forms, create and save."""

import django
from common import DATABASE, DIRECT, HOST, THROUGH, run
from django.conf import settings


def database(port, server_side):
    options = {"server_side_binding": True} if server_side else {}
    return {"ENGINE": "django.db.backends.postgresql", "HOST": HOST, "PORT": port, "USER": "postgres", "NAME": DATABASE, "OPTIONS": options}


ALIASES = {(port, server_side): f"p{port}_{server_side}" for port in (DIRECT, THROUGH) for server_side in (False, True)}
settings.configure(
    DATABASES={"default": database(DIRECT, False)} | {alias: database(*key) for key, alias in ALIASES.items()},
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
)
django.setup()

from django.db import connections, models, transaction  # noqa: E402  (settings come first)
from django.db.models import Value  # noqa: E402


class Item(models.Model):
    id = models.UUIDField(primary_key=True)
    n = models.IntegerField()
    note = models.TextField()
    ref = models.UUIDField(null=True)

    class Meta:
        app_label = "forms"
        db_table = "items"


class Noted(models.Model):
    """Django asks for what the server makes, and takes the rows by their order."""

    id = models.UUIDField(primary_key=True)
    n = models.IntegerField()
    note = models.TextField(db_default=Value("none"))
    ref = models.UUIDField(null=True)

    class Meta:
        app_label = "forms"
        db_table = "items"


def bulk_create_returning(alias, rows):
    made = Noted.objects.using(alias).bulk_create([Noted(id=key, n=n, note=note, ref=ref) for key, n, note, ref in rows])
    notes = [thing.note for thing in made]
    if notes != [note for _, _, note, _ in rows]:
        raise AssertionError(f"the objects hold {notes}")


def items(rows):
    return [Item(id=key, n=n, note=note, ref=ref) for key, n, note, ref in rows]


def bulk_create(alias, rows):
    Item.objects.using(alias).bulk_create(items(rows))


def bulk_create_by_two(alias, rows):
    Item.objects.using(alias).bulk_create(items(rows), batch_size=2)


def create_loop(alias, rows):
    for item in items(rows):
        item.save(using=alias, force_insert=True)


def form(way, server_side, atomic=True):
    def go(port, rows):
        alias = ALIASES[port, server_side]
        try:
            if atomic:
                with transaction.atomic(using=alias):
                    way(alias, rows)
            else:
                way(alias, rows)
        finally:
            connections[alias].close()

    return go


FORMS = {
    "bulk_create": ("array", form(bulk_create, False)),
    "bulk_create_batches": ("array", form(bulk_create_by_two, False)),
    "bulk_create_returning": ("array", form(bulk_create_returning, False)),
    "server_side_bulk_create_returning": ("array", form(bulk_create_returning, True)),
    "bulk_create_not_atomic": ("array", form(bulk_create, False, atomic=False)),
    "create_loop": ("literal", form(create_loop, False)),
    "server_side_bulk_create": ("array", form(bulk_create, True)),
    "server_side_create_loop": ("parameter", form(create_loop, True)),
}

if __name__ == "__main__":
    run("django", FORMS)
