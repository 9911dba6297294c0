package trace

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/plan"
)

var update = flag.Bool("update", false, "write the golden files again")

// golden compares got with a file in testdata.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(strings.ReplaceAll(contents(t, path), "\r\n", "\n"), string(got)); diff != "" {
		t.Error(diff)
	}
}

func export(t *testing.T, tr *Trace, format string) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := Export(&out, format, tr); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func textOf(t *testing.T, tr *Trace, opts TextOptions) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := WriteText(&out, tr, opts); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestExport(t *testing.T) {
	tr := read(t, record(t, example))
	for _, f := range Formats() {
		if f.Name != "html" { // the page is looked at in a browser
			t.Run("the golden file of "+f.Name, func(t *testing.T) {
				golden(t, "example-"+f.Name+f.Extension, export(t, tr, f.Name))
			})
		}
		t.Run("a failing disk is reported by "+f.Name, func(t *testing.T) {
			if err := Export(failing{}, f.Name, tr); !errors.Is(err, errFailing) {
				t.Errorf("the error is %v", err)
			}
		})
	}
	t.Run("an unknown format is named with what there is", func(t *testing.T) {
		err := Export(io.Discard, "chorme", tr)
		if err == nil || !strings.Contains(err.Error(), `did you mean "chrome"?`) {
			t.Errorf("the error is %v", err)
		}
	})
	t.Run("json is the document itself, also of a run that was killed", func(t *testing.T) {
		path := record(t, example)
		if diff := cmp.Diff(contents(t, path), string(export(t, read(t, path), "json"))); diff != "" {
			t.Error(diff)
		}
		killed := filepath.Join(t.TempDir(), "trace.json")
		os.WriteFile(killed, export(t, killedRun(t), "json"), 0o600)
		if back := read(t, killed); !back.Incomplete || logOf(t, back, "2") != "half a line" {
			t.Errorf("it reads back as %+v", back)
		}
	})
}

var errFailing = errors.New("no space left")

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errFailing }

// killedRun is the trace of a run that was killed in its second step.
func killedRun(t *testing.T) *Trace {
	path := filepath.Join(t.TempDir(), "trace.json")
	r, err := NewRecorder(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := newScript(r)
	s.at(0, "", started())
	s.run("1", "hello", "hello\n", 0, 50)
	s.at(0, "2", event.StepStarted{Name: "build", Kind: event.KindExec})
	s.print("2", event.Stdout, "half a line")
	s.at(500, "2", event.Stopping{Reason: "interrupt"})
	t.Cleanup(func() { r.Close() })
	return read(t, path)
}

func TestText(t *testing.T) {
	tr := read(t, record(t, example))
	for name, opts := range map[string]TextOptions{
		"plain.txt": {}, "verbose.txt": {Verbose: 2}, "ascii.txt": {ASCII: true, Logs: true}, "color.txt": {Color: true, Logs: true},
		"narrow.txt": {Width: 30, Verbose: 1},
	} {
		t.Run(name, func(t *testing.T) { golden(t, "text-"+name, textOf(t, tr, opts)) })
	}
	t.Run("a run that was killed says so and shows what was running", func(t *testing.T) {
		golden(t, "text-killed.txt", textOf(t, killedRun(t), TextOptions{Logs: true}))
	})
	t.Run("ASCII is ASCII", func(t *testing.T) {
		noLogs := textOf(t, tr, TextOptions{ASCII: true, Verbose: 2})
		if i := bytes.IndexFunc(noLogs, func(r rune) bool { return r > 126 }); i >= 0 {
			t.Errorf("it has %q", noLogs[i:])
		}
	})
	t.Run("nothing in a trace can steer the terminal", func(t *testing.T) {
		evil := "a\x1b]0;title\x07\x1b[2J\x1b[31mred\u009b2J\rb"
		bad := read(t, record(t, func(s *script) {
			s.at(0, "", event.RunStarted{ID: evil, Source: evil})
			s.at(0, "1", event.StepStarted{Name: evil, Title: evil, Kind: event.KindExec, Ref: evil})
			s.at(0, "1", event.ExecStarted{Command: []string{evil}, WorkDir: evil, Env: map[string]string{evil: evil}})
			s.print("1", event.Stdout, evil+"\x1b[3")
			s.print("1", event.Stdout, "1mred\x1b[1A\x1b(B\x1bPstring\x1b\\!")
			s.at(0, "1", event.StepFinished{Status: event.Failure, Error: &event.Error{Message: evil, Hint: evil}})
			s.at(0, "2", event.StepSkipped{Name: evil, Reason: evil})
		}))
		if got := textOf(t, bad, TextOptions{Verbose: 2, Logs: true}); bytes.ContainsAny(got, "\x1b\r\x07\u009b") {
			t.Errorf("got %q", got)
		}
		got := textOf(t, bad, TextOptions{Color: true, Verbose: 2, Logs: true})
		if left := regexp.MustCompile(`\x1b\[[0-9;]*m`).ReplaceAll(got, nil); bytes.ContainsAny(left, "\x1b\r\x07\u009b") {
			t.Errorf("got %q", left)
		}
		if !bytes.Contains(got, []byte("\x1b[31mred!")) {
			t.Errorf("a colour that came in two pieces is lost: %q", got)
		}
	})
	for d, want := range map[time.Duration]string{0: "0ms", 999 * time.Millisecond: "999ms", 1200 * time.Millisecond: "1.2s",
		59970 * time.Millisecond: "1m00s", 125 * time.Second: "2m05s", time.Hour - time.Millisecond: "1h00m", 62 * time.Minute: "1h02m"} {
		if got := shortDuration(d); got != want {
			t.Errorf("%v is shown as %s, want %s", d, got, want)
		}
	}
}

func TestJUnit(t *testing.T) {
	control := read(t, record(t, func(s *script) {
		s.at(0, "", event.RunStarted{ID: "a\x00\x1b<&\"\xff\uFFFE"})
		s.run("1", "bad \x02 & \"name\"\n", strings.Repeat("line \x00\x1b[31m\x0b]]> \xff\n", 5000), 2, 10)
	}))
	got := export(t, control, "junit")
	dec := xml.NewDecoder(bytes.NewReader(got))
	for {
		_, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("not XML: %v", err)
		}
	}
	if n := bytes.Count(got, []byte("\nline ")) + 1; n != junitLogLines {
		t.Errorf("%d lines of the log are shown", n)
	}
}

func TestJUnitNamesTheFileOfTheProjectThatCallsAFetchedComponent(t *testing.T) {
	got := string(export(t, read(t, record(t, func(s *script) {
		in := func(file string, line int) diag.Span { return diag.Span{File: file, Line: line, Column: 1} }
		s.at(0, "", event.RunStarted{ID: "run"})
		s.at(0, "1", event.StepStarted{Name: "call", Kind: event.KindComponent, Ref: "octo/comp@v1", Span: in("ci.yml", 6)})
		s.at(0, "1", event.StepResolved{Ref: "octo/comp@v1", File: "action.yml", Origin: &plan.Origin{Kind: plan.RefGit}})
		s.at(0, "1.1", event.StepStarted{Name: "bad", Kind: event.KindScript, Span: in("octo/comp/action.yml", 10)})
		wrong := &event.Error{Kind: event.ErrorStep, Message: "exit status 3", Diagnostics: []diag.Diagnostic{{Span: in("octo/comp/action.yml", 11), Message: "exit status 3"}}}
		s.at(1, "1.1", event.StepFinished{Status: event.Failure, Error: wrong})
		s.at(1, "1", event.StepFinished{Status: event.Failure, Error: wrong})
		s.at(1, "", event.RunFinished{Status: event.Failure, Error: wrong})
	})), "junit"))
	for _, want := range []string{`file="ci.yml" line="6"`, `message="exit status 3 (octo/comp/action.yml:11:1)"`} {
		if !strings.Contains(got, want) {
			t.Errorf("want %s in\n%s", want, got)
		}
	}
}

func TestChrome(t *testing.T) {
	for name, play := range map[string]func(*script){"example": example, "large": large} {
		t.Run("pairs nest on their threads and never go back in time: "+name, func(t *testing.T) {
			var doc struct{ TraceEvents []chromeEvent }
			if err := json.Unmarshal(export(t, read(t, record(t, play)), "chrome"), &doc); err != nil {
				t.Fatal(err)
			}
			open := map[int][]string{}
			last := map[int]float64{}
			for _, e := range doc.TraceEvents {
				if e.Time < last[e.Thread] {
					t.Errorf("%s goes back from %v to %v", e.Name, last[e.Thread], e.Time)
				}
				last[e.Thread] = e.Time
				switch stack := open[e.Thread]; e.Phase {
				case "B":
					open[e.Thread] = append(stack, e.Name)
				case "E":
					if len(stack) == 0 || stack[len(stack)-1] != e.Name {
						t.Fatalf("%s ends inside %v", e.Name, stack)
					}
					open[e.Thread] = stack[:len(stack)-1]
				}
			}
			for thread, stack := range open {
				if len(stack) > 0 {
					t.Errorf("thread %d never ends %v", thread, stack)
				}
			}
			if name == "example" && len(open) != 2 {
				t.Errorf("two parallel steps are on %d threads", len(open))
			}
		})
	}
}

func TestHTML(t *testing.T) {
	t.Run("no text of a run can leave the place it is in", func(t *testing.T) {
		evil := `</script><script>alert(1)</script><!--<script>` + "\u2028"
		page := string(export(t, read(t, record(t, func(s *script) {
			s.at(0, "", event.RunStarted{ID: evil, Source: evil, Env: map[string]string{evil: evil}, Component: inline(evil)})
			s.run("1", evil, evil, 2, 10)
			s.run(`1"><b>`, evil, evil, 2, 10)
		})), "html"))
		if strings.Contains(page, "alert(1)</script>") || strings.Contains(page, "<!--") || strings.Contains(page, `"><b>`) {
			t.Error("it is there as it is")
		}
		if n := strings.Count(page, "<script"); n != strings.Count(page, "</script>") || n != 4 {
			t.Errorf("the page has %d scripts", n)
		}
	})
	t.Run("the page asks for nothing from anywhere", func(t *testing.T) {
		page := string(export(t, read(t, record(t, example)), "html"))
		if found := regexp.MustCompile(`(?i)(src|href)=["'][^#]|url\(|https?://|@import|\sstyle=|\son[a-z]+="`).FindString(page); found != "" {
			t.Errorf("it has %q", found)
		}
		if !strings.Contains(page, "default-src 'none'") || strings.Contains(page, "{{") && !strings.Contains(page, "${{") {
			t.Error("a part of it was not filled in")
		}
	})
	t.Run("a log that is too long keeps its beginning and its end", func(t *testing.T) {
		log := &pageLog{head: pagePart{room: 10}, tail: pagePart{room: 20}}
		var whole strings.Builder
		for i := range 30 {
			stream, piece := "stdout", strings.Repeat(string(rune('a'+i%26)), 3)
			if i%4 == 0 {
				stream = "stderr"
			}
			whole.WriteString(piece)
			log.add(stream, []byte(piece))
		}
		var head, tail string
		for _, x := range log.head.texts {
			head += string(x.data)
		}
		for _, x := range log.tail.texts {
			tail += string(x.data)
		}
		if head != whole.String()[:10] || tail != whole.String()[70:] || log.dropped != 60 {
			t.Errorf("kept %q and %q, dropped %d", head, tail, log.dropped)
		}
	})
	t.Run("the page of a thousand steps stays small", func(t *testing.T) {
		if n := len(export(t, read(t, record(t, large)), "html")); n > 20<<20 {
			t.Errorf("it has %d bytes", n)
		}
	})
}
