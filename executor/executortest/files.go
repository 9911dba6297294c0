package executortest

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/steps/service/client"
)

// entry is what a round trip must keep of a file.
type entry struct {
	Type    byte
	Name    string
	Link    string
	Mode    int64
	Content string
}

// lastYear is a time that files keep.
var lastYear = time.Date(2025, 4, 5, 6, 7, 8, 0, time.UTC)

func pack(t *testing.T, entries []entry) *bytes.Buffer {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		h := &tar.Header{Typeflag: e.Type, Name: e.Name, Linkname: e.Link, Mode: e.Mode, Size: int64(len(e.Content)), ModTime: lastYear, Uid: 12345, Gid: 12345}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.Content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &out
}

func unpack(t *testing.T, in io.Reader) (entries []entry) {
	t.Helper()
	r := tar.NewReader(in)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		mode := h.Mode & 0o7777
		if h.Typeflag == tar.TypeSymlink {
			mode = 0o777 // links have none; some systems say so
		}
		if h.Typeflag == tar.TypeReg && !h.ModTime.Equal(lastYear) {
			t.Errorf("the time of %q is %s", h.Name, h.ModTime)
		}
		entries = append(entries, entry{h.Typeflag, h.Name, h.Linkname, mode, string(content)})
	}
	sort.Slice(entries, func(i, j int) bool { return entries[i].Name < entries[j].Name })
	return entries
}

func (s *suite) roundTrip(t *testing.T) {
	j := s.open(t).prepare(t, "trip")
	sent := []entry{
		{tar.TypeReg, "empty", "", 0o644, ""},
		{tar.TypeDir, "folder/", "", 0o755, ""},
		{tar.TypeReg, "folder/a name\nof two lines", "", 0o600, "content"},
		{tar.TypeReg, "folder/program", "", 0o755, "#!/bin/sh\necho it runs\n"},
		{tar.TypeSymlink, "link", "folder/program", 0o777, ""},
		{tar.TypeReg, "not utf-8 \xff", "", 0o444, "x"},
		{tar.TypeSymlink, "to nowhere", "/does/not/exist", 0o777, ""},
		{tar.TypeReg, "zz " + strings.Repeat("long/", 50) + "name", "", 0o644, strings.Repeat("much", 100_000)},
	}
	dir := j.Layout().Project + "/deep/down"
	if err := j.Send(t.Context(), dir, pack(t, sent)); err != nil {
		t.Fatal(err)
	}
	log, err := j.script(t, "cd deep/down && ./link && test -O folder/program && echo more >>folder/program && echo >folder/new && rm folder/new && test -w .")
	if err != nil || !strings.Contains(log, "it runs") {
		t.Errorf("the job cannot use its files: %v\n%s", err, log)
	}
	// Once more, over what is there.
	if err := j.Send(t.Context(), dir, pack(t, sent)); err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if err := j.Fetch(t.Context(), dir, &got); err != nil {
		t.Fatal(err)
	}
	var want []entry
	for _, e := range sent {
		e.Name = "down/" + e.Name
		want = append(want, e)
	}
	entries := unpack(t, &got)
	kept := entries[:0]
	for _, e := range entries {
		if e.Name != "down/" && !strings.HasSuffix(e.Name, "long/") {
			kept = append(kept, e)
		}
	}
	if diff := cmp.Diff(want, kept); diff != "" {
		t.Errorf("what was sent and what was fetched differ (-sent +fetched):\n%s", diff)
	}
	got.Reset()
	if err := j.Fetch(t.Context(), dir+"/folder/program", &got); err != nil {
		t.Fatal(err)
	}
	if one := unpack(t, &got); len(one) != 1 || one[0].Name != "program" {
		t.Errorf("fetching one file gives %+v", one)
	}
}

func (s *suite) hostile(t *testing.T) {
	j := s.open(t).prepare(t, "hostile")
	project := j.Layout().Project
	if log, err := j.script(t, "echo untouched >victim; mkdir in outside; ln -s ../outside in/planted"); err != nil {
		t.Fatalf("%v\n%s", err, log)
	}
	for name, entries := range map[string][]entry{
		"a name with ..":                {{tar.TypeReg, "../victim", "", 0o644, "bad"}},
		"an absolute name":              {{tar.TypeReg, project + "/victim", "", 0o644, "bad"}},
		"a file behind its own link":    {{tar.TypeSymlink, "l", "..", 0o777, ""}, {tar.TypeReg, "l/victim", "", 0o644, "bad"}},
		"a hard link to a file outside": {{tar.TypeLink, "h", "../victim", 0o644, ""}, {tar.TypeReg, "h", "", 0o644, "bad"}},
		"a file behind a planted link":  {{tar.TypeReg, "planted/victim", "", 0o644, "bad"}},
	} {
		t.Run(name, func(t *testing.T) {
			_ = j.Send(t.Context(), project+"/in", pack(t, entries)) // refused, or put elsewhere
			if log, err := j.script(t, "test \"$(cat victim)\" = untouched && test -z \"$(ls outside)\""); err != nil {
				t.Errorf("it wrote outside: %v\n%s", err, log)
			}
		})
	}
}

// breakable makes connections that a test can cut.
type breakable struct {
	dial func(context.Context) (net.Conn, error)

	mu    sync.Mutex
	conn  net.Conn
	count int
}

func (b *breakable) connect(ctx context.Context) (net.Conn, error) {
	conn, err := b.dial(ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil {
		b.conn = conn
		b.count++
	}
	return conn, err
}

func (b *breakable) cut() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.conn.Close()
}

func (s *suite) reconnects(t *testing.T) {
	j := s.open(t).prepare(t, "again")
	b := &breakable{dial: j.Connect}
	c, err := client.Dial("environment", client.WithDialer(b.connect))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Disconnect()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	// The step goes on only after its first line was seen and the connection was cut.
	if err := c.Run(ctx, j.request("long", "echo first\nuntil test -f go; do sleep 0.05; done\necho second")); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	var first sync.Once
	_, err = c.FollowLogs(ctx, "long", writerFunc(func(p []byte) (int, error) {
		log.Write(p)
		if strings.Contains(log.String(), "first\n") {
			first.Do(func() {
				b.cut()
				if err := j.Send(ctx, j.Layout().Project, pack(t, []entry{{tar.TypeReg, "go", "", 0o644, ""}})); err != nil {
					t.Error(err)
				}
			})
		}
		return len(p), nil
	}), client.LogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := log.String(); !strings.HasSuffix(got, "first\nsecond\n") || b.count < 2 {
		t.Errorf("after %d connections the log is %q", b.count, got)
	}
	if err := c.Close(ctx, "long"); err != nil {
		t.Error(err)
	}
}

func (s *suite) shell(t *testing.T) {
	j := s.open(t).prepare(t, "shell")
	var out, errs bytes.Buffer
	code, err := j.Shell(t.Context(), &executor.Shell{
		Args: []string{"sh", "-c", `read line; echo "$line $MINE in $PWD"; echo oops >&2; exit 7`}, Dir: j.Layout().Project,
		Env: []string{"MINE=yours"}, Stdin: strings.NewReader("typed\n"), Stdout: &out, Stderr: &errs,
	})
	if errors.Is(err, errors.ErrUnsupported) {
		return // a plugin without shells
	}
	if want := "typed yours in " + j.Layout().Project + "\n"; err != nil || code != 7 || out.String() != want || errs.String() != "oops\n" {
		t.Errorf("code %d, error %v, output %q, errors %q", code, err, out.String(), errs.String())
	}
}

func (s *suite) terminal(t *testing.T) {
	opensTerminal(t, s.open(t).prepare(t, "terminal"))
}

// opensTerminal checks that a person in an environment has a terminal.
func opensTerminal(t *testing.T, env executor.Environment) {
	t.Helper()
	sizes := make(chan executor.Size, 1)
	sizes <- executor.Size{Columns: 91, Rows: 17}
	var out bytes.Buffer
	typed, typing := io.Pipe()
	defer typing.Close()
	go func() { _, _ = io.WriteString(typing, "echo type\"d\"\nexit 5\n") }()
	code, err := env.Shell(t.Context(), &executor.Shell{
		Args: []string{"sh", "-c", `until test "$(stty size)" = "17 91"; do sleep 0.05; done; stty size; exec sh`}, Terminal: true, Resize: sizes,
		Stdin: typed, Stdout: &out, Stderr: &out,
	})
	if errors.Is(err, errors.ErrUnsupported) {
		return
	}
	if err != nil || code != 5 || !strings.Contains(out.String(), "17 91") || !strings.Contains(out.String(), "typed\r\n") {
		t.Errorf("code %d, error %v, output %q", code, err, out.String())
	}
}

func (s *suite) closeEndsShell(t *testing.T) {
	j := s.open(t).prepare(t, "shellends")
	begun, ended := make(chan struct{}), make(chan struct{})
	typed, typing := io.Pipe()
	defer typing.Close()
	go func() {
		defer close(ended)
		_, err := j.Shell(t.Context(), &executor.Shell{
			Args: []string{"sh", "-c", "echo begun; sleep 600"}, Terminal: true, Stdin: typed, Stdout: once(func() { close(begun) }), Stderr: io.Discard,
		})
		if errors.Is(err, errors.ErrUnsupported) {
			close(begun)
		}
	}()
	awaitBegin(t, begun)
	if err := j.Close(t.Context()); err != nil {
		t.Error(err)
	}
	<-ended
}

// Archive is a tar archive of one file.
func Archive(t *testing.T, name, text string) *bytes.Buffer {
	t.Helper()
	return pack(t, []entry{{'0', name, "", 0o644, text}})
}
