// postgres.js: the insert helper, loops, pipelined statements, arrays, JSON, COPY.
import { createRequire } from 'node:module'
import { Readable } from 'node:stream'
import { pipeline as pump } from 'node:stream/promises'
import { database, host, run } from './common.mjs'

const postgres = createRequire(`${process.env.UNTWIN_DRIVER_NODE}/`)('postgres')

const inTransaction = (body, options = {}) => async (port, rows) => {
  const sql = postgres({ host, port, database, user: 'postgres', max: 1, onnotice: () => {}, ...options })
  try {
    await sql.begin(transaction => body(transaction, rows))
  } finally {
    await sql.end({ timeout: 5 })
  }
}

const objects = rows => rows.map(([id, n, note, ref]) => ({ id, n, note, ref }))
const one = (sql, [id, n, note, ref]) => sql`insert into items (id, n, note, ref) values (${id}, ${n}, ${note}, ${ref})`
const column = (rows, place) => rows.map(row => row[place])
const literal = value => value === null ? 'NULL' : `'${String(value).replaceAll("'", "''")}'`
const field = value => value === null ? '\\N' : String(value).replaceAll('\\', '\\\\')

const forms = {
  helper: ['parameter', inTransaction((sql, rows) => sql`insert into items ${sql(objects(rows))}`)],
  helper_unprepared: ['parameter', inTransaction((sql, rows) => sql`insert into items ${sql(objects(rows))}`, { prepare: false })],
  loop: ['parameter', inTransaction(async (sql, rows) => { for (const row of rows) await one(sql, row) })],
  pipelined: ['parameter', inTransaction(async (sql, rows) => {
    await one(sql, rows[0])
    await Promise.all(rows.slice(1).map(row => one(sql, row)))
  })],
  unsafe_script: ['literal', inTransaction((sql, rows) => sql.unsafe(rows.map(row => `insert into items (id, n, note, ref) values (${row.map(literal)})`).join(';')))],
  unnest: ['array', inTransaction((sql, rows) => sql`insert into items (id, n, note, ref)
    select * from unnest(${column(rows, 0)}::uuid[], ${column(rows, 1)}::int[], ${column(rows, 2)}::text[], ${column(rows, 3)}::uuid[])`)],
  json: ['json', inTransaction((sql, rows) => sql`insert into items (id, n, note, ref)
    select id, n, note, ref from jsonb_to_recordset(${sql.json(objects(rows))}) as x (id uuid, n int, note text, ref uuid)`)],
  copy: ['copy_text', inTransaction(async (sql, rows) => {
    const lines = rows.map(row => row.map(field).join('\t') + '\n')
    await pump(Readable.from(lines), await sql`copy items (id, n, note, ref) from stdin`.writable())
  }), 'silent'],
}

await run('postgres.js', forms)
