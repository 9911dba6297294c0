// @actions/github: the context, and what the REST API answers from the local repository.
import assert from 'node:assert/strict'
import * as core from '@actions/core'
import * as github from '@actions/github'

const { context } = github
const octokit = github.getOctokit(core.getInput('token', { required: true }))
const { data: repo } = await octokit.rest.repos.get(context.repo)
assert.equal(repo.full_name, process.env.GITHUB_REPOSITORY)

const { data: commit } = await octokit.rest.repos.getCommit({ ...context.repo, ref: context.sha })
assert.equal(commit.sha, context.sha)
assert.ok(commit.files.length > 0)
const { data: ref } = await octokit.rest.git.getRef({ ...context.repo, ref: context.ref.replace('refs/', '') })
assert.equal(ref.object.sha, context.sha)
const { data: file } = await octokit.rest.repos.getContent({ ...context.repo, path: 'src/hello.txt' })
assert.equal(Buffer.from(file.content, 'base64').toString(), 'hello\n')
const { data: folder } = await octokit.rest.repos.getContent({ ...context.repo, path: 'src', ref: context.sha })
assert.deepEqual(folder.map(f => f.name), ['hello.txt'])
const branches = await octokit.paginate(octokit.rest.repos.listBranches, { ...context.repo, per_page: 1 })
assert.ok(branches.length > 1, 'there are pages')
const { data: difference } = await octokit.rest.repos.compareCommitsWithBasehead({ ...context.repo, basehead: 'main...feature/x' })
assert.equal(difference.ahead_by, 1)
assert.deepEqual(difference.files.map(f => [f.filename, f.status]), [['src/new.txt', 'added']])

async function fails(status, pattern, call) {
  const error = await call().then(() => assert.fail('it worked'), e => e)
  assert.equal(error.status, status, error.message)
  assert.match(error.message, pattern)
}
await fails(403, /Resource not accessible by integration/, () => octokit.rest.issues.createComment({ ...context.repo, issue_number: 1, body: 'x' }))
await fails(404, /Not Found/, () => octokit.rest.repos.getContent({ ...context.repo, path: 'none' }))
await fails(404, /only .* is available/, () => octokit.rest.repos.get({ owner: 'else', repo: 'where' }))
await fails(404, /Rung answers/, () => octokit.rest.repos.listReleases(context.repo))
await fails(401, /Bad credentials/, () => github.getOctokit('wrong').rest.repos.get(context.repo))

const sent = await octokit.rest.repos.createCommitStatus({ ...context.repo, sha: context.sha, state: 'success' })
assert.equal(sent.status, 201)
core.info('the API answers')
