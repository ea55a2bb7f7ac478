//! tokio-postgres through the proxy: prepared statements, pipelined futures, arrays, binary COPY, RETURNING.

use std::net::SocketAddr;

use bytes::BytesMut;
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, Error, NoTls};

use crate::expect::{self, LETTERS, sixteen_bytes};
use crate::scenario::EV;
use crate::support::{Database, Proxy};

/// A UUID in binary, as the driver's own feature would send it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Key([u8; 16]);

impl ToSql for Key {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        out.extend_from_slice(&self.0);
        Ok(IsNull::No)
    }

    fn accepts(wanted: &Type) -> bool {
        *wanted == Type::UUID
    }

    to_sql_checked!();
}

impl<'a> FromSql<'a> for Key {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Key, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Key(raw.try_into()?))
    }

    fn accepts(wanted: &Type) -> bool {
        *wanted == Type::UUID
    }
}

fn key(letter: usize) -> Key {
    Key(sixteen_bytes(LETTERS[letter].1).try_into().expect("sixteen bytes"))
}

/// The rows of the founding case.
fn rows() -> [(Key, &'static str); 3] {
    [(key(0), "a"), (key(1), "b"), (key(0), "c")]
}

async fn client(address: SocketAddr, database: &Database) -> Client {
    let target = format!("host=127.0.0.1 port={} user=postgres dbname={}", address.port(), database.name);
    let (client, connection) = tokio_postgres::connect(&target, NoTls).await.expect("a connection");
    tokio::spawn(connection);
    client
}

/// An idiomatic way to insert [`rows`] in one transaction.
#[derive(Clone, Copy, Debug)]
enum Form {
    Loop,
    Pipelined,
    MultiRow,
    Array,
    BinaryCopy,
    Script,
}

const FORMS: [Form; 6] =
    [Form::Loop, Form::Pipelined, Form::MultiRow, Form::Array, Form::BinaryCopy, Form::Script];

const INSERT: &str = "INSERT INTO ev(id,v) VALUES ($1,$2)";

async fn insert(client: &mut Client, form: Form) -> Result<(), Error> {
    let transaction = client.transaction().await?;
    let [(k, a), (l, b), (k2, c)] = rows();
    match form {
        Form::Loop => {
            for (key, v) in rows() {
                transaction.execute(INSERT, &[&key, &v]).await?;
            }
        }
        Form::Pipelined => {
            let statement = transaction.prepare(INSERT).await?;
            let parameters: [[&(dyn ToSql + Sync); 2]; 3] = [[&k, &a], [&l, &b], [&k2, &c]];
            tokio::try_join!(
                transaction.execute(&statement, &parameters[0]),
                transaction.execute(&statement, &parameters[1]),
                transaction.execute(&statement, &parameters[2])
            )?;
        }
        Form::MultiRow => {
            let sql = "INSERT INTO ev(id,v) VALUES ($1,$2),($3,$4),($5,$6)";
            transaction.execute(sql, &[&k, &a, &l, &b, &k2, &c]).await?;
        }
        Form::Array => {
            let sql = "INSERT INTO ev(id,v) SELECT * FROM unnest($1::uuid[],$2::text[])";
            transaction.execute(sql, &[&vec![k, l, k2], &vec![a, b, c]]).await?;
        }
        Form::BinaryCopy => {
            let sink = transaction.copy_in("COPY ev(id,v) FROM STDIN BINARY").await?;
            let mut writer = std::pin::pin!(BinaryCopyInWriter::new(sink, &[Type::UUID, Type::TEXT]));
            for (key, v) in rows() {
                writer.as_mut().write(&[&key, &v]).await?;
            }
            writer.finish().await?;
        }
        Form::Script => {
            let [(_, k), (_, l), _] = LETTERS else { panic!("three letters") };
            let row = |key: &str, v: &str| format!("INSERT INTO ev(id,v) VALUES ('{key}','{v}');");
            transaction.batch_execute(&[row(k, a), row(l, b), row(k, c)].concat()).await?;
        }
    }
    transaction.commit().await
}

#[tokio::test]
async fn every_form_of_a_batch_is_saved() {
    let database = Database::fresh(EV);
    for form in FORMS {
        database.run("TRUNCATE ev");
        let error = insert(&mut client(database.address, &database).await, form)
            .await
            .expect_err("twins fail without untwin");
        assert_eq!(error.code().map(|code| code.code()), Some("23505"), "{form:?}");

        let proxy = Proxy::before(&database);
        let saved = insert(&mut client(proxy.address, &database).await, form).await;
        saved.unwrap_or_else(|error| panic!("{form:?}: {error}"));
        expect::expect_rows(&["K|a", "L|b", "U|c"], &database.stored("SELECT id, v FROM ev ORDER BY ctid"));
        assert_eq!(proxy.settled_journal().len(), 1, "{form:?}");
    }
}

#[tokio::test]
async fn returning_names_the_stored_key() {
    let database = Database::fresh(EV);
    let proxy = Proxy::before(&database);
    let mut client = client(proxy.address, &database).await;
    let transaction = client.transaction().await.expect("BEGIN");
    let mut returned = Vec::new();
    for (key, v) in rows() {
        let row = transaction
            .query_one("INSERT INTO ev(id,v) VALUES ($1,$2) RETURNING id", &[&key, &v])
            .await
            .expect("a row");
        returned.push(row.get::<_, Key>(0));
    }
    transaction.commit().await.expect("COMMIT");
    assert_eq!(returned[..2], [key(0), key(1)]);
    let stored = database.stored("SELECT id FROM ev ORDER BY ctid");
    assert_eq!(returned[2].0.to_vec(), sixteen_bytes(&stored[2]));
}
