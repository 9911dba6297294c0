//go:build unix

package attacks

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A pair of keys of the tests, and nobody else's.
const (
	signingKey = `-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIDd/E974UakvcC0GY4dl4ZgGO3esJn/7zMehiP7hW+vB
-----END PRIVATE KEY-----
`
	publicKey = `-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEAbxfznPVEWoTs1ScuFeev283corAeNnevaPryal4GDyM=
-----END PUBLIC KEY-----
`
)

// signed runs steps and signs their trace, t.json.
func signed(t *testing.T, steps string) *victim {
	t.Helper()
	v := newVictim(t)
	v.write("steps.yml", steps)
	v.write("ci.key", signingKey)
	v.write("ci.pub", publicKey)
	v.mustRun("run", "steps.yml", "--output-file", "t.json")
	v.mustRun("trace", "sign", "--key", "ci.key", "t.json")
	v.mustRun("trace", "verify", "--key", "ci.pub", "t.json")
	return v
}

// readers are the commands that read t.json.
func readers() map[string][]string {
	return map[string][]string{
		"verify": {"trace", "verify", "--key", "ci.pub", "t.json"}, "sign": {"trace", "sign", "--key", "ci.key", "t.json"},
		"show": {"trace", "show", "--logs", "t.json"}, "export json": {"trace", "export", "-f", "json", "t.json"},
		"export html": {"trace", "export", "-f", "html", "t.json"}, "export text": {"trace", "export", "-f", "text", "t.json"},
		"export gitlab-log": {"trace", "export", "-f", "gitlab-log", "t.json"}, "export comparable": {"trace", "export", "-f", "comparable", "t.json"},
		"bundle": {"trace", "bundle", "t.json", "-o", "made.bundle"}, "replay": {"replay", "t.json"}, "replay --key": {"replay", "t.json", "--key", "ci.pub"},
	}
}

// TestB1WhatIsVerifiedIsWhatIsRead puts the event log of another run beside a signed trace: no command may approve one and read the other.
func TestB1WhatIsVerifiedIsWhatIsRead(t *testing.T) {
	t.Parallel()
	for name, forge := range map[string]func(own string) string{
		"of another run": func(string) string {
			return `{"seq":1,"time":"2026-03-01T12:00:00Z","type":"run.started","data":{"id":"other","runtime":{"version":"1","os":"linux","arch":"amd64"},"work_dir":"/","env":{}}}` + "\n"
		},
		"of the same run": func(own string) string {
			return `{"seq":1,"time":"2026-03-01T12:00:00Z","type":"run.started","data":{"id":"` + own + `","runtime":{"version":"1","os":"linux","arch":"amd64"},"work_dir":"/","env":{}}}` + "\n"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := signed(t, "- {name: one, script: echo first}\n")
			_, rest, _ := strings.Cut(v.read("t.json"), `"id": "`)
			own, _, _ := strings.Cut(rest, `"`)
			v.write("t.json.events", forge(own))
			for command, args := range readers() {
				if out, code := v.run(args...); code == 0 || strings.Contains(out, "first") {
					t.Errorf("%s: exit code %d\n%s", command, code, out)
				}
			}
		})
	}
}

// TestB1WhatATraceShowsIsWhatItRuns changes what the attempts say that was run: what would run is shown beside it, and a replay tells.
func TestB1WhatATraceShowsIsWhatItRuns(t *testing.T) {
	t.Parallel()
	v := newVictim(t)
	v.write("steps.yml", "- {name: one, exec: {command: [touch, ran]}}\n")
	v.mustRun("run", "steps.yml", "--output-file", "t.json")
	trace := v.read("t.json")
	at := strings.Index(trace, `"attempts"`)
	if at < 0 {
		t.Fatal("the trace has no attempts")
	}
	v.write("forged.json", trace[:at]+strings.ReplaceAll(trace[at:], `touch`, `harmless`))
	if err := os.Remove(filepath.Join(v.dir, "work", "ran")); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"trace", "show", "-vv", "forged.json"}, {"replay", "--dry-run", "forged.json"}} {
		if out := v.mustRun(args...); !strings.Contains(out, "touch") {
			t.Errorf("%v does not show what would run:\n%s", args, out)
		}
	}
	if _, err := os.Stat(filepath.Join(v.dir, "work", "ran")); err == nil {
		t.Error("to look at it ran it")
	}
	if out, code := v.run("replay", "forged.json"); code != 1 || !strings.Contains(out, "harmless") {
		t.Errorf("the replay: exit code %d\n%s", code, out)
	}
}

// TestB1ALogThatWasAlteredIsNotRead changes a byte of a log, within the document and beside it.
func TestB1ALogThatWasAlteredIsNotRead(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ steps, file string }{
		"in the document": {"- {name: one, script: echo genuine}\n", "t.json"},
		"beside it":       {"- {name: one, script: 'echo genuine; head -c 17000000 /dev/zero | tr \"\\\\0\" x'}\n", "t.json.log"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := signed(t, c.steps)
			text := v.read(c.file)
			at := strings.LastIndex(text, "genuine") // the first is in the definition
			if at < 0 {
				t.Fatalf("%s does not have the log", c.file)
			}
			v.write(c.file, text[:at]+"altered"+text[at+len("altered"):])
			for command, args := range readers() {
				out, code := v.run(args...)
				if code == 0 {
					t.Errorf("%s: exit code 0\n%.2000s", command, out)
				}
			}
		})
	}
}

// TestB1ATraceWithAnotherByteIsNotReplayed changes one byte after the other of a signed trace, and of a bundle of it.
func TestB1ATraceWithAnotherByteIsNotReplayed(t *testing.T) {
	t.Parallel()
	v := signed(t, "- {name: one, script: echo x >>ran}\n")
	v.mustRun("trace", "bundle", "t.json", "-o", "t.bundle")
	v.mustRun("trace", "sign", "--key", "ci.key", "t.bundle")
	v.mustRun("replay", "--key", "ci.pub", "t.bundle")
	ran := v.read("ran")
	const tries = 40
	for _, name := range []string{"t.json", "t.bundle"} {
		genuine := []byte(v.read(name))
		v.write("changed.dsse", v.read(name+".dsse"))
		for i := range tries {
			at := len(genuine) * i / tries
			changed := bytes.Clone(genuine)
			changed[at] ^= 1
			v.write("changed", string(changed))
			if out, code := v.run("replay", "--key", "ci.pub", "changed"); code == 0 || code == 1 {
				t.Errorf("%s with another byte %d was replayed: exit code %d\n%s", name, at, code, out)
			}
		}
	}
	if now := v.read("ran"); now != ran {
		t.Errorf("steps ran %d times, and %d before", len(now), len(ran))
	}
}

// TestB1SignatureFilesOfAPackageAreInItsDigest adds files that look like signatures to a component.
func TestB1SignatureFilesOfAPackageAreInItsDigest(t *testing.T) {
	t.Parallel()
	v := newVictim(t)
	v.write("comp/func.yml", "spec: {}\n---\nexec: {script: 'for f in \"${{ step_dir }}\"/*.dsse; do [ ! -e \"$f\" ] || . \"$f\"; done'}\n")
	v.write("steps.yml", "- {name: one, step: ./comp}\n")
	v.mustRun("run", "steps.yml", "--output-file", "t.json")
	for _, name := range []string{"comp/payload.dsse", "comp/func.yml.dsse", "comp/sub/payload.dsse"} {
		v.write(name, "touch ran\n")
		if out, code := v.run("replay", "t.json"); code != 4 || v.exists("ran") {
			t.Errorf("with %s: exit code %d\n%s", name, code, out)
		}
		if err := os.Remove(filepath.Join(v.dir, "work", name)); err != nil {
			t.Fatal(err)
		}
	}
	v.mustRun("replay", "t.json")
}
