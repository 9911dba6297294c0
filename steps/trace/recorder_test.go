package trace

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/event"
)

func TestRecorder(t *testing.T) {
	t.Run("a recorded run reads back with its steps in order", func(t *testing.T) {
		path := record(t, example)
		tr := read(t, path)
		var got []string
		tr.Walk(func(s *Step, depth int) {
			got = append(got, strings.Repeat(" ", depth)+s.ID+" "+s.Name+" "+string(s.Status))
		})
		want := []string{"1 hello success", "2 build success", " 2.1 compile success", "3 checks failure", " 3.1 lint failure",
			" 3.2 test success", "4 deploy skipped"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if tr.Incomplete || tr.Runtime.Digest != "sha256:beef" || tr.Run.Counts.Success != 3 {
			t.Errorf("the run reads back as %+v", tr.Run)
		}
		compile := tr.Find("2.1")
		if len(compile.Attempts) != 2 || compile.Attempts[0].Error == nil || *compile.Attempts[0].ExitCode != 2 {
			t.Errorf("the attempts are %+v", compile.Attempts)
		}
		if got := tr.Find("2").Resolved.Key(); tr.Components[got] == nil {
			t.Errorf("the component %s is missing", got)
		}
		if compile.Definition == nil || compile.Definition.Definition.Exec == nil {
			t.Error("the inline definition of a step inside a component is missing")
		}
	})
	t.Run("the folder holds the trace alone, for its owner alone", func(t *testing.T) {
		path := record(t, example)
		files, _ := os.ReadDir(filepath.Dir(path))
		if len(files) != 1 {
			t.Errorf("the folder holds %v", files)
		}
		if info, _ := os.Stat(path); runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
			t.Errorf("the mode is %v", info.Mode())
		}
	})
	t.Run("logs come back byte for byte, whatever is in them", func(t *testing.T) {
		tr := read(t, record(t, example))
		want := "compiling café\ncannot reach \xff\x00 server\ncompiled"
		if got := logOf(t, tr, "2.1"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		sum := sha256.Sum256([]byte(want))
		if diff := cmp.Diff(&LogSummary{int64(len(want)), hex.EncodeToString(sum[:]), 3}, tr.Find("2.1").Log); diff != "" {
			t.Error(diff)
		}
		if got := logOf(t, tr, "3.2"); got != "ok 1\nok 2\n" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("the same run gives the same document", func(t *testing.T) {
		if diff := cmp.Diff(contents(t, record(t, example)), contents(t, record(t, example))); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("how a process happened to write leaves no mark", func(t *testing.T) {
		whole := strings.Repeat("línea número uno\n", 20_000)
		write := func(size int) string {
			return contents(t, record(t, func(s *script) {
				s.at(0, "", started())
				s.at(0, "1", event.StepStarted{Name: "hello", Kind: event.KindExec})
				for rest := whole; rest != ""; {
					n := min(size, len(rest))
					s.at(0, "1", event.Log{Stream: event.Stdout, Data: []byte(rest[:n])})
					rest = rest[n:]
				}
			}))
		}
		big := write(1 << 20)
		if big != write(997) {
			t.Error("the documents differ")
		}
		if strings.Contains(big, "base64") {
			t.Error("a character was cut in two")
		}
	})
	t.Run("a run of one process is a step without a number", func(t *testing.T) {
		tr := read(t, record(t, func(s *script) {
			s.at(0, "", event.RunStarted{Component: inline("echo")})
			s.at(0, "", event.ExecStarted{Attempt: 1, Command: []string{"echo"}})
			s.print("", event.Stdout, "hi\n")
			s.at(5, "", event.ExecFinished{Attempt: 1})
			s.at(0, "", event.RunFinished{Status: event.Success})
		}))
		if s := tr.Find(""); s == nil || s.Status != event.Success || logOf(t, tr, "") != "hi\n" {
			t.Errorf("the step is %+v", s)
		}
	})
	t.Run("a list that is retried keeps what its steps did each time", func(t *testing.T) {
		tr := read(t, record(t, func(s *script) {
			s.at(0, "", started())
			s.at(0, "3", event.StepStarted{Name: "checks", Kind: event.KindParallel})
			s.run("3.2", "test", "first\n", 2, 10)
			s.at(0, "3", event.StepRetrying{Attempt: 1, Max: 2, Error: &event.Error{Message: "exit status 2"}})
			s.run("3.1", "lint", "", 0, 10)
			s.run("3.2", "test", "second\n", 0, 10)
			s.at(0, "3", event.StepFinished{Status: event.Success})
			s.at(0, "", event.RunFinished{Status: event.Success})
		}))
		var ids []string
		tr.Walk(func(s *Step, _ int) { ids = append(ids, s.ID) })
		if diff := cmp.Diff([]string{"3", "3.2", "3.1#2", "3.2#2"}, ids); diff != "" {
			t.Error(diff)
		}
		if got := logOf(t, tr, "3.2") + logOf(t, tr, "3.2#2"); got != "first\nsecond\n" {
			t.Errorf("the logs are %q", got)
		}
	})
}

func TestRecorderTarget(t *testing.T) {
	dir := t.TempDir()
	os.WriteFile(filepath.Join(dir, "file"), nil, 0o600)
	for name, path := range map[string]string{
		"the folder must exist":         filepath.Join(dir, "missing", "trace.json"),
		"the trace is not a folder":     dir,
		"a file cannot be the folder":   filepath.Join(dir, "file", "trace.json"),
		"a device cannot hold a trace":  os.DevNull,
		"the name must not be too long": filepath.Join(dir, strings.Repeat("x", 300)),
	} {
		t.Run(name, func(t *testing.T) {
			if runtime.GOOS == "windows" && path == os.DevNull {
				t.Skip("NUL is not a file on Windows")
			}
			r, err := NewRecorder(path, Options{})
			if err == nil {
				r.Close()
				t.Fatal("no error")
			}
			t.Log(err)
		})
	}
	t.Run("a recorder without events leaves nothing", func(t *testing.T) {
		path := filepath.Join(dir, "none")
		r, err := NewRecorder(path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		if got, _ := filepath.Glob(path + "*"); got != nil {
			t.Errorf("left %v", got)
		}
	})
}

func TestRunsThatWriteOneTraceAtTheSameTime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.json")
	begin := func(id string) (*Recorder, string) {
		t.Helper()
		r, err := NewRecorder(path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		log, err := r.SharedLog()
		if err != nil {
			t.Fatal(err)
		}
		newScript(r).at(0, "", event.RunStarted{ID: id})
		return r, log
	}
	end := func(r *Recorder, log, text string) { // as a step-runner that opens the log by its name
		t.Helper()
		os.WriteFile(log, []byte(text), 0o600)
		s := newScript(r)
		s.at(0, "1", event.StepStarted{Name: "hello", Kind: event.KindExec})
		s.print("1", event.Stdout, text)
		s.at(0, "1", event.StepFinished{Status: event.Success, LogBytes: int64(len(text))})
		s.at(0, "", event.RunFinished{Status: event.Success})
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	first, firstLog := begin("first")
	second, secondLog := begin("second")
	if got := read(t, path).Run.ID; got != "first" {
		t.Errorf("while both run, the record is that of %s", got)
	}
	end(first, firstLog, "of the first\n")
	if _, err := Read(path); err == nil || !strings.Contains(err.Error(), "of the run first") || !strings.Contains(err.Error(), "of the run second") {
		t.Errorf("while the second still runs, the error is %v", err)
	}
	third, thirdLog := begin("third")
	end(second, secondLog, "of the second\n")
	end(third, thirdLog, "of the third\n")
	if tr := read(t, path); tr.Run.ID != "third" || logOf(t, tr, "1") != "of the third\n" {
		t.Errorf("the trace is that of %s, with the log %q", tr.Run.ID, logOf(t, tr, "1"))
	}
	if left, _ := filepath.Glob(path + "?*"); left != nil {
		t.Errorf("they left %v", left)
	}
}

func TestWhatKilledRunsLeft(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.json")
	started, err := json.Marshal(event.Event{Seq: 1, Body: event.RunStarted{ID: "killed"}})
	if err != nil {
		t.Fatal(err)
	}
	late := eventsFile(path, 2)
	os.WriteFile(late, append(started, '\n'), 0o600)
	os.WriteFile(late+LogSuffix, nil, 0o600)
	if tr := read(t, path); tr.Run.ID != "killed" || !tr.Incomplete {
		t.Errorf("of the later of two runs that were killed, it is %+v", tr.Run)
	}
	r, err := NewRecorder(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if left, _ := filepath.Glob(path + "?*"); !slices.Equal(left, []string{path + EventsSuffix}) {
		t.Errorf("a new run leaves %v there", left)
	}
}

func TestKilledRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.json")
	r, err := NewRecorder(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := newScript(r)
	s.at(0, "", started())
	s.run("1", "hello", "hello\n", 0, 50)
	s.at(0, "2", event.StepStarted{Name: "build", Kind: event.KindExec})
	s.at(0, "2", event.ExecStarted{Attempt: 1, Command: []string{"make"}})
	s.print("2", event.Stdout, "half a l")
	s.at(100, "2", event.Progress{ID: "x", Title: "fetching"})
	t.Cleanup(func() { r.Close() })

	t.Run("log data that nothing follows is written soon", func(t *testing.T) {
		for deadline := time.Now().Add(20 * flushDelay); !strings.HasSuffix(soFar(path), "half a l"); {
			if time.Now().After(deadline) {
				t.Fatal("it is not there")
			}
			time.Sleep(flushDelay / 10)
		}
	})
	t.Run("everything up to the kill is there, cut wherever it may be", func(t *testing.T) {
		whole, log := contents(t, path+EventsSuffix), contents(t, path+EventsSuffix+LogSuffix)
		first := strings.IndexByte(whole, '\n') + 1
		for end := first; end <= len(whole); end += 7 {
			cut := filepath.Join(t.TempDir(), "cut.events")
			os.WriteFile(cut, []byte(whole[:end]), 0o600)
			os.WriteFile(cut+LogSuffix, []byte(log), 0o600)
			tr := read(t, cut)
			if !tr.Incomplete || tr.Run.Status != event.Running {
				t.Fatalf("cut at %d: %+v", end, tr.Run)
			}
			if s := tr.Find("1"); s != nil && s.Status == event.Success && logOf(t, tr, "1") != "hello\n" {
				t.Fatalf("cut at %d: the log of a finished step is %q", end, logOf(t, tr, "1"))
			}
		}
		tr := read(t, path)
		if s := tr.Find("2"); s.Status != event.Running || s.Duration != 101*time.Millisecond || logOf(t, tr, "2") != "half a l" {
			t.Errorf("the step that ran is %+v", s)
		}
		if s := tr.Find("2"); s.Log == nil || s.Log.Bytes != 8 || s.Log.Lines != 1 {
			t.Errorf("its log is %+v", s.Log)
		}
	})
	t.Run("garbage at the end is a torn line, garbage before is an error", func(t *testing.T) {
		whole := contents(t, path+EventsSuffix)
		torn := filepath.Join(t.TempDir(), "torn.events")
		os.WriteFile(torn+LogSuffix, []byte(contents(t, path+EventsSuffix+LogSuffix)), 0o600)
		os.WriteFile(torn, []byte(whole+"\x00\x00\x00\n"), 0o600)
		read(t, torn)
		os.WriteFile(torn, []byte(whole+"\x00\x00\x00\n"+whole), 0o600)
		if _, err := Read(torn); err == nil || !strings.Contains(err.Error(), "line") {
			t.Errorf("the error is %v", err)
		}
	})
	t.Run("an event log whose log file is missing, or cut, is refused", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "alone.events")
		os.WriteFile(file, []byte(contents(t, path+EventsSuffix)), 0o600)
		if _, err := Read(file); err == nil || !strings.Contains(err.Error(), "keep the two files together") {
			t.Errorf("the error is %v", err)
		}
		os.WriteFile(file+LogSuffix, []byte("hel"), 0o600)
		if _, err := Read(file); !errors.Is(err, errShortLog) {
			t.Errorf("the error is %v", err)
		}
	})
	t.Run("the event log of an earlier version has its logs in it", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "old.events")
		first, _, _ := strings.Cut(contents(t, path+EventsSuffix), "\n")
		os.WriteFile(file, []byte(first+`
{"seq":2,"time":"2026-03-01T12:00:00Z","type":"log","step":"1","data":{"stream":"stdout","offset":0,"text":"hel\u001b"}}
{"seq":3,"time":"2026-03-01T12:00:00Z","type":"log","step":"1","data":{"stream":"stdout","offset":4,"base64":"/w=="}}
{"seq":4,"time":"2026-03-01T12:00:00Z","type":"log","step":"2","data":{"stream":"stderr","offset":0,"text":""}}
`), 0o600)
		tr := read(t, file)
		if got := logOf(t, tr, "1"); got != "hel\x1b\xff" || tr.Find("1").Log.Bytes != 5 {
			t.Errorf("the log is %q, %+v", got, tr.Find("1").Log)
		}
	})
	t.Run("an event of a newer version is named", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "new.events")
		os.WriteFile(file+LogSuffix, []byte(contents(t, path+EventsSuffix+LogSuffix)), 0o600)
		line := `{"seq":9,"time":"2026-03-01T12:00:00Z","type":"step.paused","data":{}}` + "\n"
		os.WriteFile(file, []byte(contents(t, path+EventsSuffix)+line+line), 0o600)
		if _, err := Read(file); err == nil || !strings.Contains(err.Error(), "newer version") {
			t.Errorf("the error is %v", err)
		}
	})
	t.Run("an empty event log has no run", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "empty.events")
		os.WriteFile(file, nil, 0o600)
		if _, err := Read(file); err == nil {
			t.Error("no error")
		}
	})
}

// soFar is what is in the log file of a run that is not finished.
func soFar(path string) string {
	data, _ := os.ReadFile(path + EventsSuffix + LogSuffix)
	return string(data)
}

func TestReadRefuses(t *testing.T) {
	whole := contents(t, record(t, example))
	for name, c := range map[string]struct{ text, want string }{
		"a newer version":        {strings.Replace(whole, Format, FormatName+"/v2", 1), "update this program"},
		"another kind of file":   {`{"hello": "world"}`, "is not a trace"},
		"another format":         {`{"format": "other/v1"}`, "is not a trace"},
		"what is not JSON":       {"run: []\n", "is not a trace"},
		"an empty file":          {"", "is not a trace"},
		"a trace without a run":  {`{"format": "rung.trace/v1", "steps": []}`, "has no \"run\""},
		"a file of another form": {strings.Replace(whole, `"steps": [`, `"steps": "x", "y": [`, 1), "cannot use"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "trace.json")
			os.WriteFile(path, []byte(c.text), 0o600)
			_, err := Read(path)
			if err == nil {
				t.Fatal("no error")
			}
			if c.want != "cannot use" && !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v", err)
			}
		})
	}
	t.Run("a file that is cut short, wherever it may be", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "trace.json")
		for end := 40; end < len(whole)-2; end += 3 {
			os.WriteFile(path, []byte(whole[:end]), 0o600)
			if _, err := Read(path); !errors.Is(err, errCut) {
				t.Fatalf("cut at %d (%q): %v", end, whole[end-20:end], err)
			}
		}
	})
	t.Run("but not one that another program has put in another order", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "trace.json")
		at := strings.Index(whole, `"logs":`)
		head := strings.TrimSuffix(strings.TrimSpace(whole[:at]), ",")
		logs := strings.TrimSuffix(strings.TrimSpace(whole[at:]), "}")
		os.WriteFile(path, []byte("{"+logs+", "+strings.TrimPrefix(head, "{")+"}"), 0o600)
		if got := logOf(t, read(t, path), "3.2"); got != "ok 1\nok 2\n" {
			t.Errorf("the log is %q", got)
		}
	})
}

// repeat is a process that writes the same again and again.
func repeat(s event.Sink, line string, size int, total int) {
	data := []byte(strings.Repeat(line, size/len(line)+1)[:size])
	play := newScript(s)
	play.at(0, "", started())
	play.at(0, "1", event.StepStarted{Name: "hello", Kind: event.KindExec})
	for sent := 0; sent < total; sent += size {
		play.at(0, "1", event.Log{Stream: event.Stdout, Offset: int64(sent), Data: data})
	}
	play.at(0, "1", event.StepFinished{Status: event.Success})
	play.at(0, "", event.RunFinished{Status: event.Success})
}

func TestMemoryDoesNotGrowWithTheLogs(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 200 MB")
	}
	const total, most = 200 << 20, 16 << 20
	path := filepath.Join(t.TempDir(), "trace.json")
	r, err := NewRecorder(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	repeat(r, "all work and no play makes a dull log\n", 32<<10, total)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	tr := read(t, path)
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > most {
		t.Errorf("the heap grew by %d bytes", grown)
	}
	if grown := int64(after.HeapSys) - int64(before.HeapSys); grown > 4*most {
		t.Errorf("the heap took %d bytes from the system", grown)
	}
	if got := tr.Find("1").Log.Bytes; got != total {
		t.Errorf("recorded %d bytes", got)
	}
}

func FuzzLogLine(f *testing.F) {
	f.Add("1.2", "stdout", int64(7), int64(9))
	f.Add("", "stderr", int64(0), int64(0))
	f.Add("\"\\", "other", int64(1)<<62, int64(1))
	f.Fuzz(func(t *testing.T, step, stream string, at, size int64) {
		at, size = max(at, -(at+1)), min(max(size, -(size+1)), 1<<20)
		step, stream = strings.ToValidUTF8(step, "?"), strings.ToValidUTF8(stream, "?")
		e := event.Event{Seq: 1, Time: time.Unix(5, 7).UTC(), Step: step}
		log := event.Log{Stream: event.Stream(stream), Offset: 3, Data: make([]byte, size)}
		line := bytes.TrimSuffix(appendLogLine(nil, &e, &log, at), []byte("\n"))
		got, ok := parseLogLine(line)
		want := logLine{e.Time, step, event.Stream(stream), span{at, size}}
		if !ok || !got.time.Equal(want.time) || got.step != want.step || got.stream != want.stream || got.span != want.span {
			t.Fatalf("%s reads back as %+v, %v", line, got, ok)
		}
		var other event.Event
		if err := other.UnmarshalJSON(line); err == nil {
			t.Fatal("the event package takes a line without data for a log event")
		}
	})
}

// FuzzMerger holds chunks of data against chunks of places in a file in which another step's log is mixed with this one.
func FuzzMerger(f *testing.F) {
	f.Add(uint64(1), []byte("häuser\n"), 3)
	f.Add(uint64(7), []byte("ж€😀"), 30_000)
	f.Fuzz(func(t *testing.T, seed uint64, unit []byte, repeats int) {
		whole := bytes.Repeat(unit, min(max(repeats, 0), 200_000/max(len(unit), 1)))
		rnd := rand.New(rand.NewPCG(seed, 1))
		var got, file bytes.Buffer
		var sizes []int
		byData := newMerger(nil, func(c mergedChunk) error {
			if c.Offset != int64(got.Len()) || len(c.Data) == 0 || len(c.Data) > maxChunk {
				t.Fatalf("chunk of %d bytes at %d, want offset %d", len(c.Data), c.Offset, got.Len())
			}
			got.Write(c.Data)
			sizes = append(sizes, len(c.Data))
			return nil
		})
		var pieces []piece
		for rest := whole; len(rest) > 0; {
			n := min(len(rest), 1+rnd.IntN(100_000))
			if err := byData.add("1", event.Stdout, time.Time{}, piece{data: rest[:n]}); err != nil {
				t.Fatal(err)
			}
			pieces = append(pieces, piece{span: span{int64(file.Len()), int64(n)}})
			file.Write(rest[:n])
			if rnd.IntN(2) == 0 {
				file.WriteString("another step")
			}
			rest = rest[n:]
		}
		byData.close()
		if !bytes.Equal(got.Bytes(), whole) {
			t.Fatal("the chunks are not the log")
		}
		log := bytes.NewReader(file.Bytes())
		got.Reset()
		byPlace := newMerger(log, func(c mergedChunk) error {
			data, err := readSpans(log, c.spans, nil)
			if err != nil {
				t.Fatal(err)
			}
			if len(sizes) == 0 || sizes[0] != len(data) || c.size != int64(len(data)) || c.Offset != int64(got.Len()) {
				t.Fatalf("a chunk has %d bytes at %d, sizes were %v", len(data), c.Offset, sizes)
			}
			sizes = sizes[1:]
			got.Write(data)
			return nil
		})
		for _, p := range pieces {
			if err := byPlace.add("1", event.Stdout, time.Time{}, p); err != nil {
				t.Fatal(err)
			}
		}
		byPlace.close()
		if !bytes.Equal(got.Bytes(), whole) || len(sizes) > 0 {
			t.Fatal("the chunks of places are not those of data")
		}
	})
}

func BenchmarkRecorder(b *testing.B) {
	for _, c := range []struct {
		name string
		size int
	}{{"line by line", 80}, {"4 KiB", 4 << 10}, {"32 KiB", 32 << 10}} {
		data := []byte(strings.Repeat("10:42:01 compiling steps/trace/recorder.go (42 of 99)\n", c.size/50+1)[:c.size])
		b.Run(c.name, func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "trace.json")
			r, err := NewRecorder(path, Options{})
			if err != nil {
				b.Fatal(err)
			}
			r.Event(event.Event{Seq: 1, Body: started()})
			b.SetBytes(int64(c.size))
			e := event.Event{Seq: 2, Time: time.Now(), Step: "1", Body: event.Log{Stream: event.Stdout, Data: data}}
			for b.Loop() {
				r.Event(e)
			}
			b.StopTimer()
			r.started = false // the document is not what is measured
			r.Close()
		})
	}
}

func BenchmarkClose(b *testing.B) {
	const total = 64 << 20
	b.SetBytes(total)
	for b.Loop() {
		b.StopTimer()
		r, err := NewRecorder(filepath.Join(b.TempDir(), "trace.json"), Options{})
		if err != nil {
			b.Fatal(err)
		}
		repeat(r, "10:42:01 compiling steps/trace/recorder.go\n", 32<<10, total)
		b.StartTimer()
		if err := r.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLog(b *testing.B) {
	const total = 64 << 20
	path := filepath.Join(b.TempDir(), "trace.json")
	r, err := NewRecorder(path, Options{})
	if err != nil {
		b.Fatal(err)
	}
	repeat(r, "10:42:01 compiling steps/trace/recorder.go\n", 32<<10, total)
	r.Close()
	b.SetBytes(total)
	for b.Loop() {
		tr, err := Read(path)
		if err != nil {
			b.Fatal(err)
		}
		if err := tr.Log("1", io.Discard); err != nil {
			b.Fatal(err)
		}
	}
}
