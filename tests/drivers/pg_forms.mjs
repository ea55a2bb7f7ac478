// node-postgres: query loops, named statements, pipelining, multi-row, arrays, JSON, COPY.
import { createRequire } from 'node:module'
import { Readable } from 'node:stream'
import { pipeline as pump } from 'node:stream/promises'
import { database, host, run } from './common.mjs'

const require = createRequire(`${process.env.UNTWIN_DRIVER_NODE}/`)
const pg = require('pg')
const { from: copyFrom } = require('pg-copy-streams')

const insert = 'INSERT INTO items (id, n, note, ref) VALUES ($1, $2, $3, $4)'
const columns = rows => [0, 1, 2, 3].map(place => rows.map(row => row[place]))

const inTransaction = (body, options = {}) => async (port, rows) => {
  const client = new pg.Client({ host, port, database, user: 'postgres', ...options })
  await client.connect()
  try {
    await client.query('BEGIN')
    await body(client, rows)
    await client.query('COMMIT')
  } finally {
    await client.end()
  }
}

const literal = value => value === null ? 'NULL' : pg.escapeLiteral(String(value))
const field = value => value === null ? '\\N' : String(value).replaceAll('\\', '\\\\')

// What RETURNING gave must be what is stored.
const isStored = async (client, returned, count) => {
  const { rows } = await client.query('SELECT id, n FROM items ORDER BY n')
  if (rows.length !== count || JSON.stringify(returned) !== JSON.stringify(rows)) throw new Error(`returned ${JSON.stringify(returned)}`)
}

const forms = {
  query_loop: ['parameter', inTransaction(async (client, rows) => { for (const row of rows) await client.query(insert, row) })],
  query_named: ['parameter', inTransaction(async (client, rows) => { for (const values of rows) await client.query({ name: 'ins', text: insert, values }) })],
  query_queued: ['parameter', inTransaction((client, rows) => Promise.all(rows.map(row => client.query(insert, row))))],
  pipeline: ['parameter', inTransaction((client, rows) => Promise.all(rows.map(row => client.query(insert, row))), { pipeline: true })],
  buffer: ['parameter', inTransaction(async (client, rows) => {
    for (const [id, ...rest] of rows) await client.query(insert, [Buffer.from(id.replaceAll('-', ''), 'hex'), ...rest])
  })],
  multi_row: ['parameter', inTransaction((client, rows) => {
    const holes = rows.map((_, n) => `($${4 * n + 1}, $${4 * n + 2}, $${4 * n + 3}, $${4 * n + 4})`)
    return client.query(`INSERT INTO items (id, n, note, ref) VALUES ${holes.join(', ')}`, rows.flat())
  })],
  simple_multi: ['literal', inTransaction((client, rows) => client.query(rows.map(row => `INSERT INTO items (id, n, note, ref) VALUES (${row.map(literal)})`).join(';')))],
  // As Prisma's createManyAndReturn.
  returning: ['parameter', inTransaction(async (client, rows) => {
    const holes = rows.map((_, n) => `($${4 * n + 1},$${4 * n + 2},$${4 * n + 3},$${4 * n + 4})`)
    const text = `INSERT INTO "public"."items" ("id","n","note","ref") VALUES ${holes.join(', ')} RETURNING "public"."items"."id", "public"."items"."n"`
    const returned = (await client.query(text, rows.flat())).rows
    await isStored(client, returned, rows.length)
  })],
  returning_loop: ['parameter', inTransaction(async (client, rows) => {
    const returned = []
    for (const row of rows) returned.push(...(await client.query(`${insert} RETURNING id, n`, row)).rows)
    await isStored(client, returned, rows.length)
  })],
  unnest: ['array', inTransaction((client, rows) => client.query('INSERT INTO items (id, n, note, ref) SELECT * FROM unnest($1::uuid[], $2::int[], $3::text[], $4::uuid[])', columns(rows)))],
  json: ['json', inTransaction((client, rows) => {
    const documents = rows.map(([id, n, note, ref]) => ({ id, n, note, ref }))
    return client.query('INSERT INTO items (id, n, note, ref) SELECT id, n, note, ref FROM json_populate_recordset(null::items, $1)', [JSON.stringify(documents)])
  })],
  copy_from: ['copy_text', inTransaction((client, rows) => {
    const lines = rows.map(row => row.map(field).join('\t') + '\n')
    return pump(Readable.from(lines), client.query(copyFrom('COPY items (id, n, note, ref) FROM STDIN')))
  })],
}

await run('pg', forms)
