package traces_test

import (
	"archive/zip"
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rungci/rung/manager/traces"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/signature"
	"github.com/rungci/rung/steps/trace"
)

// recorded makes the trace of a short run.
func recorded(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "trace.json")
	r, err := trace.NewRecorder(file, trace.Options{Volatile: true})
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC)
	r.Event(event.Event{Seq: 1, Time: at, Body: event.RunStarted{ID: "job-1"}})
	r.Event(event.Event{Seq: 2, Time: at.Add(time.Second), Body: event.RunFinished{Status: event.Success, Duration: time.Second}})
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	return file
}

func key(t *testing.T) (file string, public signature.PublicKey) {
	t.Helper()
	open, secret, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, _ := x509.MarshalPKCS8PrivateKey(secret)
	file = filepath.Join(t.TempDir(), "ci.key")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	der, _ = x509.MarshalPKIXPublicKey(open)
	if public, err = signature.ParsePublicKey(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})); err != nil {
		t.Fatal(err)
	}
	return file, public
}

func TestAProjectHasAFolderOfItsOwn(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"https://gitlab.example.com":          "gitlab.example.com",
		"https://GitLab.example.com/":         "gitlab.example.com",
		"http://gitlab.example.com:8080":      "gitlab.example.com_8080",
		"https://gitlab.example.com/one/":     "gitlab.example.com+one",
		"https://gitlab.example.com/../../up": "gitlab.example.com+..+..+up",
		"http://[::1]:8080":                   "__1_8080",
		"":                                    "gitlab",
	} {
		if got := traces.ProjectFolder(address, 7); got != filepath.Join(want, "project-7") {
			t.Errorf("%s: %s", address, got)
		}
	}
}

func TestATraceIsKeptUnderTheNumbersOfItsJobAndSigned(t *testing.T) {
	t.Parallel()
	private, public := key(t)
	dir := t.TempDir()
	at, err := new(traces.Folder).Take(recorded(t), traces.Of{GitLab: "https://gitlab.example.com:8443/sub", Project: 7, Job: 42}, traces.Options{Dir: dir, Key: private})
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(dir, "gitlab.example.com_8443+sub", "project-7", "job-42.trace.json"); at != want {
		t.Errorf("it is in %s, want %s", at, want)
	}
	if _, err := trace.Read(at); err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(at + signature.Suffix)
	if err != nil {
		t.Fatal(err)
	}
	envelope, err := signature.ParseEnvelope(text)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := envelope.Verify([]signature.PublicKey{public}, 1); err != nil {
		t.Error(err)
	}
	var packed bytes.Buffer
	if err := traces.Pack(at, &packed); err != nil {
		t.Fatal(err)
	}
	r, err := zip.NewReader(bytes.NewReader(packed.Bytes()), int64(packed.Len()))
	if err != nil {
		t.Fatal(err)
	}
	if len(r.File) != 2 || r.File[0].Name != "job-42.trace.json" || r.File[1].Name != "job-42.trace.json.dsse" {
		t.Errorf("%d files, the first is %s", len(r.File), r.File[0].Name)
	}
}

func TestAKeyThatCannotSignIsRefused(t *testing.T) {
	t.Parallel()
	file, _ := key(t)
	if err := traces.CheckKey(file); err != nil {
		t.Error(err)
	}
	if err := traces.CheckKey(""); err != nil {
		t.Error("no key is none:", err)
	}
	if err := traces.CheckKey(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a key that is not there is accepted")
	}
	if runtime.GOOS == "windows" {
		return
	}
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := traces.CheckKey(file); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Error("a key that others can read:", err)
	}
	dir := t.TempDir()
	at, err := new(traces.Folder).Take(recorded(t), traces.Of{Job: 1}, traces.Options{Dir: dir, Key: file})
	if err == nil || at == "" {
		t.Error("the trace is kept without a signature, and that is told:", at, err)
	}
}

func TestOldTracesAreRemoved(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, c := range map[string]struct {
		o    traces.Options
		left string
	}{
		"no limit":       {traces.Options{}, "0 1 2 3 4"},
		"the newest two": {traces.Options{Keep: 2}, "0 1"},
		"a day":          {traces.Options{MaxAge: 60 * time.Hour}, "0 1 2"},
		"both":           {traces.Options{Keep: 1, MaxAge: 60 * time.Hour}, "0"},
	} {
		dir := filepath.Join(t.TempDir(), "with [brackets]")
		if runtime.GOOS == "windows" {
			dir = t.TempDir()
		}
		c.o.Dir = dir
		folder := filepath.Join(dir, "host", "project-1")
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		write := func(file string, age int) {
			if err := os.WriteFile(file, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			at := now.Add(-time.Duration(age) * 24 * time.Hour)
			if err := os.Chtimes(file, at, at); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 5 {
			base := filepath.Join(folder, fmt.Sprintf("job-%d.trace.json", i))
			write(base, i)
			write(base+".log", i)
			write(base+signature.Suffix, i)
		}
		other := filepath.Join(folder, "notes.txt")
		write(other, 1000)
		if err := traces.Prune(c.o, now); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var left []string
		for i := range 5 {
			base := filepath.Join(folder, fmt.Sprintf("job-%d.trace.json", i))
			files, _ := filepath.Glob(strings.NewReplacer("[", `\[`).Replace(base) + "*")
			switch len(files) {
			case 3:
				left = append(left, fmt.Sprint(i))
			case 0:
			default:
				t.Errorf("%s: of a trace %d of 3 files are left", name, len(files))
			}
		}
		if got := strings.Join(left, " "); got != c.left {
			t.Errorf("%s: left are %q, want %q", name, got, c.left)
		}
		if _, err := os.Stat(other); err != nil {
			t.Errorf("%s: another file was removed", name)
		}
	}
}
