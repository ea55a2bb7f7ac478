//! sqlx through the proxy: prepared statements, multi-row inserts, arrays, text COPY, scripts.

use std::net::SocketAddr;

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::types::Uuid;
use sqlx::{ConnectOptions, Connection, Error, Executor, QueryBuilder, Row};

use crate::expect::{self, LETTERS};
use crate::scenario::EV;
use crate::support::{Database, Proxy};

/// The rows of the founding case; without a twin, the third has a key of its own.
fn rows(twin: bool) -> [(Uuid, &'static str); 3] {
    let key = |letter: usize| Uuid::parse_str(LETTERS[letter].1).expect("a UUID");
    [(key(0), "a"), (key(1), "b"), (key(if twin { 0 } else { 2 }), "c")]
}

async fn connect(address: SocketAddr, database: &Database) -> PgConnection {
    let options = PgConnectOptions::new().host("127.0.0.1").port(address.port());
    options.username("postgres").database(&database.name).connect().await.expect("a connection")
}

/// An idiomatic way to insert rows in one transaction.
#[derive(Clone, Copy, Debug)]
enum Form {
    Loop,
    NotPersistent,
    PushValues,
    Unnest,
    Copy,
    Script,
}

const FORMS: [Form; 6] =
    [Form::Loop, Form::NotPersistent, Form::PushValues, Form::Unnest, Form::Copy, Form::Script];

async fn insert(connection: &mut PgConnection, form: Form, twin: bool) -> Result<(), Error> {
    let rows = rows(twin);
    let mut transaction = connection.begin().await?;
    match form {
        Form::Loop | Form::NotPersistent => {
            for (key, v) in rows {
                let query = sqlx::query("INSERT INTO ev(id,v) VALUES ($1,$2)").bind(key).bind(v);
                let query = query.persistent(matches!(form, Form::Loop));
                query.execute(&mut *transaction).await?;
            }
        }
        Form::PushValues => {
            let mut builder = QueryBuilder::new("INSERT INTO ev(id,v) ");
            builder.push_values(rows, |mut row, (key, v)| {
                row.push_bind(key).push_bind(v);
            });
            builder.build().execute(&mut *transaction).await?;
        }
        Form::Unnest => {
            let (keys, values): (Vec<Uuid>, Vec<&str>) = rows.into_iter().unzip();
            let sql = "INSERT INTO ev(id,v) SELECT * FROM UNNEST($1::uuid[], $2::text[])";
            sqlx::query(sql).bind(keys).bind(values).execute(&mut *transaction).await?;
        }
        Form::Copy => {
            let data: String = rows.iter().map(|(key, v)| format!("{key}\t{v}\n")).collect();
            let mut copy = transaction.copy_in_raw("COPY ev(id,v) FROM STDIN").await?;
            copy.send(data.as_bytes()).await?;
            copy.finish().await?;
        }
        Form::Script => {
            let row = |(key, v): &(Uuid, &str)| format!("INSERT INTO ev(id,v) VALUES ('{key}','{v}');");
            let script: String = rows.iter().map(row).collect();
            transaction.execute(script.as_str()).await?;
        }
    }
    transaction.commit().await
}

#[tokio::test]
async fn every_form_of_a_batch_is_saved() {
    let database = Database::fresh(EV);
    for form in FORMS {
        database.run("TRUNCATE ev");
        let direct = insert(&mut connect(database.address, &database).await, form, true).await;
        let error = direct.expect_err("twins fail without untwin");
        let state = error.as_database_error().and_then(|error| error.code()).map(|code| code.into_owned());
        assert_eq!(state.as_deref(), Some("23505"), "{form:?}");

        let proxy = Proxy::before(&database);
        let saved = insert(&mut connect(proxy.address, &database).await, form, true).await;
        saved.unwrap_or_else(|error| panic!("{form:?}: {error}"));
        expect::expect_rows(&["K|a", "L|b", "U|c"], &database.stored("SELECT id, v FROM ev ORDER BY ctid"));
        assert_eq!(proxy.settled_journal().len(), 1, "{form:?}");
    }
}

#[tokio::test]
async fn a_batch_without_a_twin_is_stored_as_sent() {
    let database = Database::fresh(EV);
    let proxy = Proxy::before(&database);
    for form in FORMS {
        database.run("TRUNCATE ev");
        let mut connection = connect(proxy.address, &database).await;
        insert(&mut connection, form, false).await.unwrap_or_else(|error| panic!("{form:?}: {error}"));
        expect::expect_rows(&["K|a", "L|b", "M|c"], &database.stored("SELECT id, v FROM ev ORDER BY ctid"));
        let counted = connection.fetch_one("SELECT count(*) FROM ev").await.expect("a row");
        assert_eq!(counted.get::<i64, _>(0), 3);
    }
    assert!(proxy.settled_journal().is_empty());
}
