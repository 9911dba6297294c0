// Every function of @actions/core. The post step is this file again.
import assert from 'node:assert/strict'
import * as fs from 'node:fs/promises'
import * as path from 'node:path'

const core = await import(process.env['INPUT_PACKAGE'])

if (core.getState('main') === 'done') {
  assert.equal(core.getState('lines'), 'a\nb=<<c')
  assert.deepEqual(JSON.parse(core.getState('object')), { a: [1] })
  core.info(`post: ${process.env.EXPORTED}`)
  process.exit(0)
}

// Inputs.
assert.equal(core.getInput('who to greet', { required: true }), 'Mona Lisa')
assert.equal(core.getInput('WHO TO GREET'), 'Mona Lisa')
assert.equal(core.getInput('none'), '')
assert.throws(() => core.getInput('none', { required: true }), /required and not supplied: none/)
assert.deepEqual(core.getMultilineInput('lines'), ['one', 'two', 'three'])
assert.deepEqual(core.getMultilineInput('lines', { trimWhitespace: false }), ['one', 'two  ', 'three'])
assert.equal(core.getBooleanInput('flag'), true)
assert.throws(() => core.getBooleanInput('lines'), TypeError)

// State, outputs, variables and PATH.
core.saveState('main', 'done')
core.saveState('lines', 'a\nb=<<c')
core.saveState('object', { a: [1] })
core.setOutput('text', 'first\nsecond=<<EOF\n\nlast')
core.setOutput('object', { list: [1, 'two', null], nested: { yes: true } })
core.exportVariable('EXPORTED', 'of the action')
core.exportVariable('EXPORTED_LINES', 'one\ntwo=<<X\n')
core.exportVariable('EXPORTED_OBJECT', { n: 1 })
assert.equal(process.env.EXPORTED, 'of the action', 'the action sees it at once')
const tools = path.join(process.env.RUNNER_TEMP, 'core-tools')
await fs.mkdir(tools, { recursive: true })
await fs.writeFile(path.join(tools, 'greet-of-core'), '#!/bin/sh\necho "greeted by a tool"\n', { mode: 0o755 })
core.addPath(tools)

// What is written to the log.
core.setSecret('a secret that is made up')
core.info('a secret that is made up')
core.info(`given: ${core.getInput('secret')}`)
core.startGroup('first group')
core.info('in the first group')
core.endGroup()
assert.equal(await core.group('second group', async () => 42), 42)
const place = { title: 'A title: with, signs', file: 'src/app.js', startLine: 3, endLine: 4, startColumn: 1, endColumn: 9 }
core.error('an error\nof two lines: 100%', place)
core.warning('a warning', { file: 'src/app.js', startLine: 5 })
core.notice('a notice')
core.error(new Error('an error object'))
core.debug('only when debugging')
core.info(`debug is ${core.isDebug()}`)
core.setCommandEcho(true)
core.setCommandEcho(false)

// The summary.
await core.summary
  .addHeading('Results')
  .addTable([[{ data: 'name', header: true }, { data: 'result', header: true }], ['unit', 'ok']])
  .addCodeBlock('let x = 1', 'js')
  .addList(['one', 'two'])
  .addLink('a link', 'https://example.com/')
  .write()
await core.summary.addRaw('and more', true).write()

// Paths and the platform.
assert.equal(core.toPosixPath('a\\b'), 'a/b')
if (core.platform) {
  assert.equal(core.platform.platform, process.platform)
  assert.ok((await core.platform.getDetails()).name)
}

if (core.getInput('audience')) {
  const token = await core.getIDToken(core.getInput('audience'))
  const claims = JSON.parse(Buffer.from(token.split('.')[1], 'base64url'))
  assert.equal(claims.aud, core.getInput('audience'))
  assert.match(claims.sub, new RegExp(`^repo:${process.env.GITHUB_REPOSITORY}:`))
  core.info(`the token: ${token}`)
} else {
  await assert.rejects(core.getIDToken('anybody'), /ACTIONS_ID_TOKEN_REQUEST_URL/)
}
