// Every call of @actions/artifact, with the package that the input names.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import * as fs from 'node:fs/promises'
import * as path from 'node:path'
import * as core from '@actions/core'

const { DefaultArtifactClient } = await import(core.getInput('package'))
const major = core.getInput('package') === '@actions/artifact' ? 6 : 2
const name = core.getInput('name')
const dir = await fs.mkdtemp(path.join(process.env.RUNNER_TEMP, 'artifact-'))
const client = new DefaultArtifactClient()

if (core.getInput('from')) {
  const { artifact } = await client.getArtifact(core.getInput('from'))
  await client.downloadArtifact(artifact.id, { path: path.join(dir, 'earlier') })
  assert.equal(await fs.readFile(path.join(dir, 'earlier', 'a.txt'), 'utf8'), 'hello')
  core.info(`found what an earlier job left: ${artifact.name}`)
  process.exit(0)
}

// More than one block of Azure's: blocks have 8 MiB.
const large = Buffer.alloc(9 << 20, 'do not compress me away ')
await fs.mkdir(path.join(dir, 'in', 'deep'), { recursive: true })
await fs.writeFile(path.join(dir, 'in', 'a.txt'), 'hello')
await fs.writeFile(path.join(dir, 'in', 'deep', 'large.bin'), large)
const files = [path.join(dir, 'in', 'a.txt'), path.join(dir, 'in', 'deep', 'large.bin')]

const up = await client.uploadArtifact(name, files, path.join(dir, 'in'), { compressionLevel: 0, retentionDays: 1 })
assert.ok(up.id > 0, 'it has a number')
assert.ok(up.size > large.length, 'all of it went up')

const listed = await client.listArtifacts()
const mine = listed.artifacts.find(a => a.name === name)
assert.equal(mine.id, up.id)
assert.equal(mine.size, up.size)
if (major > 2) assert.equal(mine.digest, `sha256:${up.digest}`)
const got = await client.getArtifact(name)
assert.equal(got.artifact.id, up.id)

const down = await client.downloadArtifact(up.id, { path: path.join(dir, 'out'), expectedHash: `sha256:${up.digest}` })
assert.ok(!down.digestMismatch, 'it is what went up')
assert.equal(await fs.readFile(path.join(dir, 'out', 'a.txt'), 'utf8'), 'hello')
const back = await fs.readFile(path.join(dir, 'out', 'deep', 'large.bin'))
assert.equal(createHash('sha256').update(back).digest('hex'), createHash('sha256').update(large).digest('hex'))

await assert.rejects(client.uploadArtifact(name, files, path.join(dir, 'in')), /already exists/)
for (const bad of ['..', 'a/b', 'a\\b', 'a:b']) {
  await assert.rejects(client.uploadArtifact(bad, files, path.join(dir, 'in')), undefined, bad)
}
await assert.rejects(client.getArtifact('no such'), /not found/i)

if (major > 2) {
  // A single file as it is.
  const page = path.join(dir, `${name}.html`)
  await fs.writeFile(page, '<p>report</p>')
  const raw = await client.uploadArtifact('ignored', [page], dir, { skipArchive: true })
  await client.downloadArtifact(raw.id, { path: path.join(dir, 'raw') })
  assert.equal(await fs.readFile(path.join(dir, 'raw', `${name}.html`), 'utf8'), '<p>report</p>')
  await client.deleteArtifact(`${name}.html`)

  // As other runs' artifacts are reached: through the REST API.
  const token = core.getInput('token')
  if (token) {
    const [repositoryOwner, repositoryName] = process.env.GITHUB_REPOSITORY.split('/')
    const findBy = { token, repositoryOwner, repositoryName, workflowRunId: Number(process.env.GITHUB_RUN_ID) }
    const listed = await client.listArtifacts({ findBy })
    assert.ok(listed.artifacts.some(a => a.id === up.id))
    await client.downloadArtifact(up.id, { path: path.join(dir, 'rest'), findBy })
    assert.equal(await fs.readFile(path.join(dir, 'rest', 'a.txt'), 'utf8'), 'hello')
  }
}

if (!core.getBooleanInput('keep')) {
  assert.equal((await client.deleteArtifact(name)).id, up.id)
  await assert.rejects(client.getArtifact(name), /not found/i)
}
core.setOutput('id', up.id)
core.setOutput('digest', up.digest)
