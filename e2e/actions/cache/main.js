// Every call of @actions/cache, with the package that the input names.
import assert from 'node:assert/strict'
import * as fs from 'node:fs/promises'
import * as core from '@actions/core'

const cache = await import(core.getInput('package'))
const key = core.getInput('key')
await fs.mkdir('cached/deep', { recursive: true })
const large = Buffer.alloc(3 << 20, 'x')

async function save(key, text) {
  await fs.writeFile('cached/text', text)
  await fs.writeFile('cached/deep/large', large)
  return await cache.saveCache(['cached'], key)
}

async function restored(key, restoreKeys, options) {
  await fs.rm('cached', { recursive: true, force: true })
  return await cache.restoreCache(['cached'], key, restoreKeys, options)
}

assert.ok(cache.isFeatureAvailable())
assert.equal(await restored(`${key}-one`), undefined, 'nothing is there yet')
await fs.mkdir('cached/deep', { recursive: true })
assert.ok((await save(`${key}-one`, '1')) > 0, 'it is saved')
assert.ok((await save(`${key}-two`, '2')) > 0)

assert.equal(await restored(`${key}-one`), `${key}-one`)
assert.equal(await fs.readFile('cached/text', 'utf8'), '1')
assert.equal((await fs.readFile('cached/deep/large')).length, large.length)

assert.equal(await restored(`${key}-none`, [`${key}-x`, `${key}-`]), `${key}-two`, 'the newest that begins with a key')
assert.equal(await fs.readFile('cached/text', 'utf8'), '2')
assert.equal(await restored(`${key}-one`, [], { lookupOnly: true }), `${key}-one`)
await assert.rejects(fs.access('cached'), undefined, 'looking it up unpacks nothing')

await fs.mkdir('cached/deep', { recursive: true })
assert.equal(await save(`${key}-one`, 'other'), -1, 'what is saved stays as it is')
assert.equal(await restored(`${key}-one`), `${key}-one`)
assert.equal(await fs.readFile('cached/text', 'utf8'), '1')
await assert.rejects(cache.saveCache(['cached'], `${key},comma`), /comma/)
core.info('caches work')
