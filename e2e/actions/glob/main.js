// @actions/glob.
import assert from 'node:assert/strict'
import * as fs from 'node:fs/promises'
import * as path from 'node:path'
import * as core from '@actions/core'
import * as glob from '@actions/glob'

const root = process.env.GITHUB_WORKSPACE
await fs.mkdir(path.join(root, 'globbed', 'deep'), { recursive: true })
for (const name of ['a.txt', 'b.md', '.hidden.txt', 'deep/c.txt']) await fs.writeFile(path.join(root, 'globbed', name), name)
const globber = await glob.create('globbed/**/*.txt\n!globbed/a.txt')
const found = (await globber.glob()).map(file => path.relative(path.join(root, 'globbed'), file)).sort()
assert.deepEqual(found, ['.hidden.txt', path.join('deep', 'c.txt')])
assert.equal(await glob.hashFiles('globbed/*.none'), '')
core.setOutput('hash', await glob.hashFiles('globbed/**/*.txt'))
