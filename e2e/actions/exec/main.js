// @actions/exec and @actions/io.
import assert from 'node:assert/strict'
import * as fs from 'node:fs/promises'
import * as path from 'node:path'
import * as core from '@actions/core'
import * as exec from '@actions/exec'
import * as io from '@actions/io'

if (core.getBooleanInput('fail')) {
  core.setFailed('it failed as it was asked to')
} else {
  let seen = ''
  const code = await exec.exec('sh', ['-c', 'echo out; echo err >&2; cat; exit 3'], {
    ignoreReturnCode: true, input: Buffer.from('from input\n'), env: { ...process.env, A: 'b' }, listeners: { stdout: data => (seen += data) }
  })
  assert.equal(code, 3)
  assert.equal(seen, 'out\nfrom input\n')
  const got = await exec.getExecOutput('sh', ['-c', 'echo "$0 $1"', 'a b', '$HOME "quoted"'], { silent: true })
  assert.equal(got.stdout, 'a b $HOME "quoted"\n')
  await assert.rejects(exec.exec('sh', ['-c', 'exit 4']), /exit code 4/)
  await assert.rejects(exec.exec('no-such-program-anywhere'), /Unable to locate/)

  const dir = await fs.mkdtemp(path.join(process.env.RUNNER_TEMP, 'io-'))
  await io.mkdirP(path.join(dir, 'a', 'b'))
  await fs.writeFile(path.join(dir, 'a', 'b', 'file'), 'text')
  await io.cp(path.join(dir, 'a'), path.join(dir, 'copy'), { recursive: true })
  await io.mv(path.join(dir, 'copy', 'b', 'file'), path.join(dir, 'moved'))
  assert.equal(await fs.readFile(path.join(dir, 'moved'), 'utf8'), 'text')
  await io.rmRF(path.join(dir, 'a'))
  await assert.rejects(fs.access(path.join(dir, 'a')))
  assert.match(await io.which('sh', true), /sh$/)
  await assert.rejects(io.which('no-such-program-anywhere', true))
  core.info('programs run')
}
