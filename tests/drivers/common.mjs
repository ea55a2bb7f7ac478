// Runs every form of a driver directly and through untwin, and compares; knows no driver.
// A form inserts rows in one transaction; its entry names the carrier of its keys. UNTWIN_DRIVER_CARRIERS limits a run to some carriers.
import { execFileSync } from 'node:child_process'

export const host = '127.0.0.1'
export const database = process.env.UNTWIN_DRIVER_DATABASE
const [direct, through] = [Number(process.env.UNTWIN_DRIVER_DIRECT), Number(process.env.UNTWIN_DRIVER_THROUGH)]
const carriers = (process.env.UNTWIN_DRIVER_CARRIERS ?? '').split(',')

const key = digit => `${digit.repeat(8)}-1111-4111-8111-111111111111`
const ref = '99999999-9999-4999-8999-999999999999'
const rows = third => [
  [key('a'), 0, 'one', ref], [key('b'), 1, "it's two", ref], [third, 2, 'thr\\ee', ref], [key('c'), 3, 'four, é', null],
]
const twins = rows(key('a'))
const distinct = rows(key('d'))

const psql = sql => {
  const target = ['-h', host, '-p', String(direct), '-U', 'postgres', '-d', database]
  const output = execFileSync('psql', ['-X', '-A', '-t', '-q', '-v', 'ON_ERROR_STOP=1', ...target, '-c', sql], { encoding: 'utf8', timeout: 60000 })
  return output.split('\n').filter(line => line !== '')
}
const stored = () => psql('SELECT id, n, note, ref FROM items ORDER BY n')
const shown = rows => rows.map(row => row.map(value => value ?? '').join('|'))
const same = (left, right) => JSON.stringify(left) === JSON.stringify(right)
const withoutKey = line => line.slice(line.indexOf('|'))
const empty = () => psql('TRUNCATE items')

// A silent form is one whose driver hangs when its twins fail, instead of saying so.
async function complaint (form, silent) {
  empty()
  await form(direct, distinct)
  const expected = stored()
  empty()
  await form(through, distinct)
  if (!same(stored(), expected) || !same(expected, shown(distinct))) return `without twins: ${stored()} through untwin, ${expected} directly`
  empty()
  const error = silent ? { code: '23505' } : await form(direct, twins).then(() => null, error => error)
  if (error?.code !== '23505') return `twins do not fail directly: ${error?.stack ?? error}`
  if (stored().length) return 'directly, part of the batch was stored'
  await form(through, twins)
  const lines = stored()
  const keys = lines.map(line => line.split('|')[0])
  if (!same(lines.map(withoutKey), shown(twins).map(withoutKey))) return `through untwin, the other columns are ${lines}`
  if (new Set(keys).size !== keys.length || ![0, 1, 3].every(n => keys[n] === twins[n][0])) return `through untwin, the keys are ${keys}`
  return null
}

export async function run (driver, forms) {
  let failures = 0
  for (const [name, [carrier, form, silent]] of Object.entries(forms)) {
    if (carriers[0] !== '' && !carriers.includes(carrier)) continue
    const why = await complaint(form, silent).catch(error => error.stack ?? String(error))
    if (why !== null) failures++
    console.log(why === null ? `ok ${driver} ${name} (${carrier})` : `FAIL ${driver} ${name} (${carrier}): ${why}`)
  }
  process.exit(failures ? 1 : 0)
}
