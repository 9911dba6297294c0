// @actions/tool-cache: a download, archives, and tools that later jobs find.
import assert from 'node:assert/strict'
import * as fs from 'node:fs/promises'
import * as http from 'node:http'
import * as path from 'node:path'
import * as core from '@actions/core'
import * as exec from '@actions/exec'
import * as tools from '@actions/tool-cache'

const dir = await fs.mkdtemp(path.join(process.env.RUNNER_TEMP, 'tools-'))
await fs.mkdir(path.join(dir, 'tool', 'bin'), { recursive: true })
await fs.writeFile(path.join(dir, 'tool', 'bin', 'hello'), '#!/bin/sh\necho hello\n', { mode: 0o755 })
const tar = path.join(dir, 'tool.tgz')
await exec.exec('tar', ['-czf', tar, '-C', path.join(dir, 'tool'), '.'], { silent: true })

const server = http.createServer((request, response) => {
  if (request.url !== '/tool.tgz') return response.writeHead(404).end()
  fs.readFile(tar).then(content => response.end(content))
})
await new Promise(listening => server.listen(0, '127.0.0.1', listening))
const base = `http://127.0.0.1:${server.address().port}`
const archive = await tools.downloadTool(`${base}/tool.tgz`)
await assert.rejects(tools.downloadTool(`${base}/none`), /404/)
server.close()

const unpacked = await tools.extractTar(archive)
assert.ok((await fs.stat(path.join(unpacked, 'bin', 'hello'))).isFile())
const version = `1.2.${Date.now()}`
const kept = await tools.cacheDir(unpacked, 'hello-tool', version)
assert.ok(kept.startsWith(process.env.RUNNER_TOOL_CACHE), kept)
assert.equal(tools.find('hello-tool', version), kept)
assert.equal(tools.find('hello-tool', '1.x'), kept)
assert.equal(tools.find('hello-tool', '2.x'), '')
assert.ok(tools.findAllVersions('hello-tool').includes(version))
await fs.access(`${kept}.complete`)
const one = await tools.cacheFile(path.join(dir, 'tool', 'bin', 'hello'), 'renamed', 'one-file-tool', version)
assert.ok((await fs.stat(path.join(one, 'renamed'))).isFile())
core.addPath(path.join(kept, 'bin'))
