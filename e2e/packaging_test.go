package e2e

import (
	"archive/zip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// packaged is a project that uses what we publish for other systems: the component and the action, as they are in this repository. The user's
// settings are in a folder of their own.
func packaged(t *testing.T, settings string, files map[string]string) (dir string, local func(wantCode int, args ...string) string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("needs bash")
	}
	for _, program := range []string{"bash", "git"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s", program)
		}
	}
	dir = t.TempDir()
	for _, folder := range []string{"templates", "packaging"} {
		if err := os.CopyFS(filepath.Join(dir, folder), os.DirFS(filepath.Join("..", folder))); err != nil {
			t.Fatal(err)
		}
	}
	action, err := os.ReadFile("../action.yml")
	if err != nil {
		t.Fatal(err)
	}
	files["action.yml"] = string(action)
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	repository(t, dir)
	bin, cache := build(t), t.TempDir()
	return dir, func(wantCode int, args ...string) string {
		t.Helper()
		cmd := exec.Command(filepath.Join(bin, "step-runner"), append([]string{"local", "--project-dir", dir, "--fold", "none"}, args...)...)
		cmd.Env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "STEP_RUNNER_CACHE="+cache, "XDG_CONFIG_HOME="+settings)
		out, err := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != wantCode {
			t.Fatalf("step-runner local %v: %v, want exit code %d\n%s", args, err, wantCode, out)
		}
		return string(out)
	}
}

// repository makes a Git repository of a folder, with tags.
func repository(t *testing.T, dir string, tags ...string) {
	t.Helper()
	commands := [][]string{
		{"init", "-q", "-b", "main"}, {"add", "."},
		{"-c", "user.name=A", "-c", "user.email=a@example.com", "commit", "-qm", "a project"},
	}
	for _, tag := range tags {
		commands = append(commands, []string{"tag", tag})
	}
	for _, args := range commands {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
}

// mirror writes a user's sources.toml by which what is on a host comes from folders, and returns the folder of the user's settings.
func mirror(t *testing.T, host, dir string) string {
	t.Helper()
	settings := t.TempDir()
	file := filepath.Join(settings, "rung", "sources.toml")
	if err := os.Mkdir(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("[[source]]\nmatch = %q\nreplace = %q\n", host+"/", "file://"+dir+"/")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return settings
}

// left are the files in the store of artifacts.
func left(dir string) (paths []string) {
	_ = filepath.WalkDir(filepath.Join(dir, ".rung", "artifacts"), func(path string, entry os.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			paths = append(paths, path)
		}
		return nil
	})
	return paths
}

// zipped returns the files of a zip archive.
func zipped(t *testing.T, file string) map[string]string {
	t.Helper()
	z, err := zip.OpenReader(file)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	files := map[string]string{}
	for _, f := range z.File {
		in, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		files[f.Name] = string(text)
	}
	return files
}

// wantTrace checks that an archive holds a trace with a text in its log, and the page of it.
func wantTrace(t *testing.T, files map[string]string, folder, status, said string) {
	t.Helper()
	var document struct {
		Format string `json:"format"`
		Run    struct {
			Status string `json:"status"`
		} `json:"run"`
	}
	text := files[folder+"trace.json"]
	if err := json.Unmarshal([]byte(text), &document); err != nil || !strings.HasPrefix(document.Format, "rung.trace/") {
		t.Errorf("%strace.json of %v is not a trace: %v, %.300s", folder, slices.Collect(maps.Keys(files)), err, text)
	}
	if document.Run.Status != status || !strings.Contains(text, said) {
		t.Errorf("the trace says %q, not %q and %q:\n%.2000s", document.Run.Status, status, said, text)
	}
	if page := files[folder+"trace.html"]; !strings.Contains(page, "<html") || !strings.Contains(page, said) {
		t.Errorf("trace.html is not the page of the trace: %.300q", page)
	}
}

func TestTheComponentRunsStepsChecksThePipelineAndKeepsTheTrace(t *testing.T) {
	t.Parallel()
	for name, steps := range map[string]string{
		"success": "- {name: hello, script: echo hello from the component}\n",
		"failure": "- {name: hello, script: echo hello from the component; exit 3}\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// The component is included by its address and version, as from GitLab; a mirror of gitlab.com has it.
			servers := t.TempDir()
			published := filepath.Join(servers, "rungci", "rung")
			if err := os.CopyFS(filepath.Join(published, "templates"), os.DirFS(filepath.Join("..", "templates"))); err != nil {
				t.Fatal(err)
			}
			repository(t, published, "1.2.3")
			dir, local := packaged(t, mirror(t, "gitlab.com", servers), map[string]string{
				"steps.yml":      steps,
				".gitlab-ci.yml": "include:\n  - component: gitlab.com/rungci/rung/step-runner@1.2.3\n    inputs: {as: ours, stage: build}\n",
			})
			code, last := 0, "OK 2 jobs"
			if name == "failure" {
				code, last = 1, "FAILED 1 of 2 jobs"
			}
			out := local(code, "--isolation", "none", "--env", "XDG_CONFIG_HOME")
			for _, want := range []string{"hello from the component", "0 errors, 0 warnings", last} {
				if !strings.Contains(out, want) {
					t.Errorf("the output has no %q:\n%s", want, out)
				}
			}
			kept := left(dir)
			at := slices.IndexFunc(kept, func(path string) bool { return strings.HasSuffix(path, ".zip") })
			if at < 0 {
				t.Fatalf("the job left no archive: %q", kept)
			}
			wantTrace(t, zipped(t, kept[at]), ".step-runner/", name, "hello from the component")
			for _, report := range []string{"junit", "codequality"} {
				if !strings.Contains(strings.Join(kept, "\n"), report) {
					t.Errorf("there is no %s report: %q", report, kept)
				}
			}
		})
	}
}

func TestTheComponentDownloadsWithWhatItsImageHasOrSaysWhatToDo(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("needs a POSIX shell")
	}
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("needs sh")
	}
	template, err := os.ReadFile("../templates/step-runner/template.yml")
	if err != nil {
		t.Fatal(err)
	}
	_, script, _ := strings.Cut(string(template), "  before_script:\n    - |\n")
	script, _, ok := strings.Cut(script, "    - step-runner version\n")
	if !ok {
		t.Fatal("the template has another before_script")
	}
	for _, c := range []struct{ has, want string }{
		{"", "step-runner cannot be downloaded: the image slim:1 has neither curl nor wget; use the input image of the component"},
		{"curl", "curl -fsSL -o .step-runner-install.sh https://example.com/releases/download/v1/install.sh"},
		{"wget", "wget -q -O .step-runner-install.sh https://example.com/releases/download/v1/install.sh"},
	} {
		bin := t.TempDir()
		if c.has != "" {
			if err := os.WriteFile(filepath.Join(bin, c.has), []byte("#!"+sh+"\necho "+c.has+" \"$@\"\nexit 1\n"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.Command(sh, "-e", "-c", script)
		cmd.Dir = t.TempDir()
		cmd.Env = []string{"PATH=" + bin, "STEP_RUNNER_URL=https://example.com/releases", "STEP_RUNNER_VERSION=v1", "CI_JOB_IMAGE=slim:1", "CI_PROJECT_DIR=" + cmd.Dir}
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), c.want) {
			t.Errorf("with %q: %v, %s", c.has, err, out)
		}
	}
}

// uploadArtifact is as much of actions/upload-artifact@v4 as our action uses, on the protocol that it speaks: the files of a folder, in a zip
// archive whose names begin in that folder.
const uploadArtifact = `const fs = require('fs'), path = require('path'), zlib = require('zlib'), crypto = require('crypto')
const token = process.env.ACTIONS_RUNTIME_TOKEN
const scopes = JSON.parse(Buffer.from(token.split('.')[1], 'base64url')).scp.split(' ')
const [, run, job] = scopes.find(scope => scope.startsWith('Actions.Results:')).split(':')
const name = process.env.INPUT_NAME, root = process.env.INPUT_PATH

async function call(method, more) {
  const url = new URL('/twirp/github.actions.results.api.v1.ArtifactService/' + method, process.env.ACTIONS_RESULTS_URL)
  const headers = {Authorization: 'Bearer ' + token, 'Content-Type': 'application/json'}
  const body = JSON.stringify({workflow_run_backend_id: run, workflow_job_run_backend_id: job, name, ...more})
  const answer = await fetch(url, {method: 'POST', headers, body})
  if (!answer.ok) throw new Error(method + ': ' + answer.status + ' ' + await answer.text())
  return answer.json()
}

function crc32(data) {
  let crc = ~0
  for (const byte of data) {
    crc ^= byte
    for (let i = 0; i < 8; i++) crc = crc >>> 1 ^ (crc & 1 ? 0xedb88320 : 0)
  }
  return ~crc >>> 0
}

function zip(files) {
  const parts = [], list = []
  let at = 0
  for (const [file, data] of files) {
    const packed = zlib.deflateRawSync(data), label = Buffer.from(file), head = Buffer.alloc(26)
    head.writeUInt16LE(20, 0)
    head.writeUInt16LE(8, 4)
    head.writeUInt32LE(crc32(data), 10)
    head.writeUInt32LE(packed.length, 14)
    head.writeUInt32LE(data.length, 18)
    head.writeUInt16LE(label.length, 22)
    const entry = Buffer.concat([Buffer.from('PK\x03\x04'), head, label, packed])
    const tail = Buffer.alloc(14)
    tail.writeUInt32LE(at, 10)
    list.push(Buffer.concat([Buffer.from('PK\x01\x02'), Buffer.from([20, 3]), head, tail, label]))
    parts.push(entry)
    at += entry.length
  }
  const directory = Buffer.concat(list), end = Buffer.alloc(18)
  end.writeUInt16LE(files.length, 4)
  end.writeUInt16LE(files.length, 6)
  end.writeUInt32LE(directory.length, 8)
  end.writeUInt32LE(at, 12)
  return Buffer.concat([...parts, directory, Buffer.from('PK\x05\x06'), end])
}

async function main() {
  const files = fs.readdirSync(root).sort().map(file => [file, fs.readFileSync(path.join(root, file))])
  if (files.length === 0 && process.env['INPUT_IF-NO-FILES-FOUND'] === 'ignore') return
  const archive = zip(files)
  const {signed_upload_url: url} = await call('CreateArtifact', {version: 4})
  const put = await fetch(url, {method: 'PUT', headers: {'x-ms-blob-type': 'BlockBlob'}, body: archive})
  if (!put.ok) throw new Error('upload: ' + put.status)
  const hash = 'sha256:' + crypto.createHash('sha256').update(archive).digest('hex')
  await call('FinalizeArtifact', {size: String(archive.length), hash})
  console.log('uploaded ' + files.length + ' files as ' + name)
}
main().catch(error => { console.log('::error::' + error.message); process.exitCode = 1 })
`

func TestTheActionRunsStepsChecksFilesAndUploadsTheTrace(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("needs node")
	}
	servers := t.TempDir()
	upload := filepath.Join(servers, "actions", "upload-artifact")
	for name, text := range map[string]string{
		"main.js": uploadArtifact,
		"action.yml": "name: Upload\ninputs: {name: {default: artifact}, path: {required: true}, if-no-files-found: {default: warn}}\n" +
			"runs: {using: node20, main: main.js}\n",
	} {
		if err := errors.Join(os.MkdirAll(upload, 0o755), os.WriteFile(filepath.Join(upload, name), []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	repository(t, upload, "v4")
	dir, local := packaged(t, mirror(t, "github.com", servers), map[string]string{
		"steps.yml": "- {name: hello, script: echo hello from the action}\n",
		"fails.yml": "- {name: hello, script: echo hello before the end; exit 3}\n",
		"wrong.yml": "on: push\njobs: {}\n",
		".github/workflows/ci.yml": `on: push
jobs:
  ours:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - id: rung
        uses: ./
        with: {steps: steps.yml, lint: .github/workflows/ci.yml}
      - run: grep -q "hello from the action" "${{ steps.rung.outputs.trace }}" && echo the trace is kept
  fails:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - uses: ./
        with: {steps: fails.yml, artifact: trace-of-fails}
  none:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - uses: ./
        with: {steps: steps.yml, artifact: ""}
  lint:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - uses: ./
        with: {steps: steps.yml, lint: wrong.yml, artifact: never}
`,
	})
	out := local(1, filepath.Join(dir, ".github/workflows/ci.yml"))
	for _, want := range []string{
		"hello from the action", "0 errors, 0 warnings", "the trace is kept", "uploaded 2 files as trace\n", "uploaded 2 files as trace-of-fails\n", "FAILED 2 of 4 jobs",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the output has no %q:\n%s", want, out)
		}
	}
	kept := map[string]string{}
	for _, path := range left(dir) {
		if name, ok := strings.CutSuffix(filepath.Base(path), ".zip"); ok {
			kept[name] = path
		}
	}
	if got := slices.Sorted(maps.Keys(kept)); !slices.Equal(got, []string{"trace", "trace-of-fails"}) {
		t.Fatalf("the artifacts are %q\n%s", got, out)
	}
	wantTrace(t, zipped(t, kept["trace"]), "", "success", "hello from the action")
	wantTrace(t, zipped(t, kept["trace-of-fails"]), "", "failure", "hello before the end")
}
