//go:build linux

package attacks

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/manager/gitlab"
)

// encodings are how programs print a secret.
var encodings = map[string]func(string) string{
	"as it is": func(s string) string { return s },
	"JSON":     inJSON, "JSON in JSON": func(s string) string { return inJSON(inJSON(s)) },
	"query": url.QueryEscape, "path": url.PathEscape,
	"base64":           func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
	"base64 for URLs":  func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) },
	"base64 in a text": func(s string) string { return base64.StdEncoding.EncodeToString([]byte("user:" + s + "\n")) },
	"hexadecimal":      func(s string) string { return hex.EncodeToString([]byte(s)) },
	"HEXADECIMAL":      func(s string) string { return strings.ToUpper(hex.EncodeToString([]byte(s))) },
	"Go":               strconv.Quote, "shell": quoted,
}

func inJSON(s string) string {
	text, _ := json.Marshal(s)
	return string(text[1 : len(text)-1])
}

func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// TestNoSecretLeaks prints secrets in every encoding, each in pieces at seeded places, and looks for them in what GitLab receives and in all that this machine
// shows or keeps of the job. RUNG_SEED begins another sequence.
func TestNoSecretLeaks(t *testing.T) {
	seed, _ := strconv.ParseUint(os.Getenv("RUNG_SEED"), 10, 64)
	rnd := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // of a test
	f := newField(t, executor.None)
	var script strings.Builder
	script.WriteString("say() { printf %s \"$1\"; }\n")
	secrets := make([]string, 12)
	for i := range secrets {
		secrets[i] = someSecret(rnd)
		for name := range encodings {
			for range 2 {
				pieces(rnd, &script, encodings[name](secrets[i]))
			}
		}
	}
	for i := range secrets {
		fmt.Fprintf(&script, "echo \"$SECRET_%d\"; printf %%s \"$SECRET_%d\" | od -A n -t x1\n", i, i)
	}
	script.WriteString("echo; echo all is said; while [ ! -e stop ]; do sleep 0.1; done")
	job := f.job(script.String())
	for i, s := range secrets {
		job.Variables = append(job.Variables, gitlab.Variable{Key: fmt.Sprint("SECRET_", i), Value: s, Masked: true, Raw: true})
	}
	j := f.server.Enqueue(job)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := j.WaitLog(ctx, "\nall is said"); err != nil {
		t.Fatal(err, tail(j.Result().Log))
	}
	shown := map[string]string{"the processes": commandLines(), "the files of the runner": f.files(t), "the runner's own log": f.said.String(), "its pages": f.pages(t)}
	j.Cancel()
	shown["the log in GitLab"] = f.wait(t, j).Log
	shown["the files of the runner afterwards"], shown["the runner's own log afterwards"] = f.files(t), f.said.String()
	for where, text := range shown {
		if text == "" {
			t.Errorf("%s: nothing to look at", where)
		}
		for _, s := range secrets {
			for name, encode := range encodings {
				found := encode(s)
				if name == "base64 in a text" { // its ends hold other text
					found = found[8 : len(found)-8]
				}
				if at := strings.Index(text, found); at >= 0 {
					t.Errorf("%s: %q, %s, seed %d: …%q", where, s, name, seed, text[max(0, at-20):min(len(text), at+len(found)+20)])
				}
			}
		}
	}
}

// someSecret is one of letters, and of what needs quotes and escapes.
func someSecret(rnd *rand.Rand) string {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	alphabets := []string{letters, letters + `-_./+=@%&?#!*~^`, letters + ` "'\$` + "`<>{}|;:,", letters + "äöüßéñ→日本語"}
	alphabet := []rune(alphabets[rnd.IntN(len(alphabets))])
	out := make([]rune, 16+rnd.IntN(40))
	for i := range out {
		out[i] = alphabet[rnd.IntN(len(alphabet))]
	}
	out[0], out[len(out)-1] = rune(letters[rnd.IntN(26)]), rune(letters[rnd.IntN(26)]) // blanks at the ends are cut by many
	return string(out)
}

// pieces writes shell text that prints a text in several writes.
func pieces(rnd *rand.Rand, script *strings.Builder, text string) {
	to := []string{"", " >&2"}[rnd.IntN(2)]
	for len(text) > 0 {
		n := 1 + rnd.IntN(min(len(text), 14)) // less than a secret: the script itself holds none
		fmt.Fprintf(script, "say %s%s\n", quoted(text[:n]), to)
		text = text[n:]
		if rnd.IntN(12) == 0 {
			script.WriteString("sleep 0.01\n")
		}
	}
	fmt.Fprintf(script, "echo%s\n", to)
}

// commandLines are those of all processes, and the environments of ours.
func commandLines() string {
	var all bytes.Buffer
	folders, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range folders {
		args, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		all.Write(append(args, '\n'))
		if name := filepath.Base(string(bytes.SplitN(args, []byte{0}, 2)[0])); name == "rung" || name == "step-runner" {
			env, _ := os.ReadFile(filepath.Join(dir, "environ"))
			all.Write(append(env, '\n'))
		}
	}
	return all.String()
}

// files are those of the runner, one behind the other.
func (f *field) files(t *testing.T) string {
	t.Helper()
	var all bytes.Buffer
	for _, dir := range []string{f.state(), filepath.Join(f.dir, "t")} {
		_ = filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
			if err == nil && entry.Type().IsRegular() && entry.Name() != "step-runner" {
				content, _ := os.ReadFile(path)
				all.WriteString(path + "\n")
				all.Write(content)
			}
			return nil
		})
	}
	return all.String()
}

var address = regexp.MustCompile(`address=(127\.0\.0\.1:[0-9]+)`)

// pages are what the runner serves: to everybody, and to its own user alone.
func (f *field) pages(t *testing.T) string {
	t.Helper()
	found := address.FindStringSubmatch(f.said.String())
	sockets, _ := filepath.Glob(filepath.Join(f.state(), "*.sock"))
	if found == nil || len(sockets) != 1 {
		t.Fatalf("the runner serves nothing:\n%s\n%v", f.said.String(), sockets)
	}
	private := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", sockets[0])
	}}}
	var all bytes.Buffer
	for host, client := range map[string]*http.Client{found[1]: http.DefaultClient, "private": private} {
		for _, path := range []string{"/", "/metrics", "/status", "/debug/jobs/list", "/jobs/1003", "/jobs/1003/log", "/jobs/1003/trace"} {
			answer, err := client.Get("http://" + host + path)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(&all, answer.Body)
			_ = answer.Body.Close()
		}
	}
	if !strings.Contains(all.String(), "all is said") {
		t.Error("the pages do not show the job's log")
	}
	return all.String()
}
