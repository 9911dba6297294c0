package trace

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/event"
)

// Varying are the fields of a document that differ between two runs of the same deterministic job, as "part.field". The
// "comparable" form of a trace has nothing in their place, or what is the same in every run. Docs/trace.md says why each varies.
var Varying = []string{
	"run.id", "run.started", "run.duration_ns", "run.stopping.time", "run.secrets", "run.digest_key",
	"run.continues", "run.pauses", "run.fresh_work_dir", "run.environment.prepared", "run.environment.project", "run.environment.programs", "run.confine", "run.identity", "run.parts",
	"step.span", "step.resolved.dir", "step.started", "step.duration_ns", "step.log.sha256",
	"attempt.program", "attempt.image", "attempt.confined", "attempt.started", "attempt.duration_ns",
	"logs.offset", "logs.time", "warning.machine", "warning.time",
}

// writeComparable writes the document without what varies: two runs of one deterministic job give the same bytes. The streams of
// a log stand one behind the other, because how they mix varies as well.
func writeComparable(w io.Writer, t *Trace) error {
	c := &comparable{plain: placesOf(t), places: placesOf(t)}
	for i, folder := range c.plain.runFolders {
		c.plain.runFolders[i] = jsonText(folder)
	}
	for _, folder := range []*string{&c.plain.variables, &c.plain.workDir, &c.plain.parent, &c.plain.project, &c.plain.programs, &c.plain.tools} {
		*folder = jsonText(*folder)
	}
	if err := c.collect(t); err != nil {
		return err
	}
	shown := *t
	run := &shown.Run
	run.ID, run.DigestKey, run.Started, run.Duration = "", "", time.Time{}, 0
	run.FreshWorkDir, run.Confine = false, ""
	run.Continues, run.Pauses, run.Parts, run.Identity = nil, nil, nil, nil
	if run.Environment != nil {
		place := *run.Environment
		place.Prepared, place.Project, place.Programs = nil, "", ""
		run.Environment = &place
	}
	if run.Stopping != nil {
		stopping := *run.Stopping
		stopping.Time = time.Time{}
		run.Stopping = &stopping
	}
	shown.Warnings = slices.DeleteFunc(slices.Clone(t.Warnings), func(w Warning) bool { return w.Machine })
	for i := range shown.Warnings {
		shown.Warnings[i].Time = time.Time{}
	}
	slices.SortStableFunc(shown.Warnings, func(a, b Warning) int {
		return cmp.Or(strings.Compare(a.Step, b.Step), strings.Compare(a.Message, b.Message))
	})
	shown.Steps = c.steps(t.Steps)
	var head bytes.Buffer
	writer := bufio.NewWriter(&head)
	if err := shown.writeHeader(writer, nil); err != nil {
		return err
	}
	if err := writer.Flush(); err != nil {
		return err
	}
	text := hideDigests(c.plain.text(head.String()))
	out := bufio.NewWriterSize(w, 2*maxChunk)
	out.WriteString(text)
	out.WriteString(",\n  \"logs\": [")
	separator := "\n"
	t.Walk(func(s *Step, _ int) {
		for _, stream := range []event.Stream{event.Stdout, event.Stderr} {
			data := c.streams[streamKey{s.ID, stream}]
			if len(data) == 0 {
				continue
			}
			out.WriteString(separator + "    ")
			out.Write(appendChunk(nil, Chunk{Step: s.ID, Stream: stream, Data: data}))
			separator = ",\n"
		}
	})
	if separator == ",\n" {
		out.WriteString("\n  ")
	}
	out.WriteString("]\n}\n")
	return out.Flush()
}

// jsonText is a text as it stands inside a JSON string.
func jsonText(text string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(text); err != nil {
		return text
	}
	return strings.Trim(strings.TrimSuffix(b.String(), "\n"), `"`)
}

// comparable is a trace on its way to the form that does not vary.
type comparable struct {
	plain   places // as they are in JSON
	places  places
	streams map[streamKey][]byte
}

// collect reads the logs, with the run's folders, times and temporary paths replaced line by line, as a replay compares them.
func (c *comparable) collect(t *Trace) error {
	normal := newNormalizer(t)
	c.streams = map[streamKey][]byte{}
	if err := t.Chunks(func(chunk Chunk) error {
		key := streamKey{chunk.Step, chunk.Stream}
		c.streams[key] = append(c.streams[key], chunk.Data...)
		return nil
	}); err != nil {
		return err
	}
	for key, data := range c.streams {
		var out strings.Builder
		for line := range strings.Lines(c.places.text(string(data))) {
			text, end := strings.CutSuffix(line, "\n")
			if out.WriteString(normal.line(text)); end {
				out.WriteByte('\n')
			}
		}
		c.streams[key] = []byte(out.String())
	}
	return nil
}

func (c *comparable) steps(steps []*Step) []*Step {
	if steps == nil {
		return nil
	}
	out := make([]*Step, len(steps))
	for i, s := range steps {
		shown := *s
		shown.Started, shown.Duration, shown.Span = time.Time{}, 0, diag.Span{}
		if s.Resolved != nil {
			resolved := *s.Resolved
			resolved.Dir = ""
			shown.Resolved = &resolved
		}
		shown.Attempts = slices.Clone(s.Attempts)
		for k := range shown.Attempts {
			shown.Attempts[k].Program, shown.Attempts[k].Image = nil, nil // they are the machine's
			shown.Attempts[k].Confined, shown.Attempts[k].Env = false, c.places.beyond(s.Attempts[k].Env)
			shown.Attempts[k].Started, shown.Attempts[k].Duration = time.Time{}, 0
		}
		shown.Annotations = sortedAnnotations(s.Annotations)
		if s.Log != nil {
			shown.Log = c.summary(s.ID, s.Log.Lines)
		}
		shown.Steps = c.steps(s.Steps)
		out[i] = &shown
	}
	return out
}

// summary is that of a log whose streams stand one behind the other.
func (c *comparable) summary(id string, lines int64) *LogSummary {
	h := sha256.New()
	var size int64
	for _, stream := range []event.Stream{event.Stdout, event.Stderr} {
		data := c.streams[streamKey{id, stream}]
		h.Write(data)
		size += int64(len(data))
	}
	return &LogSummary{Bytes: size, SHA256: hex.EncodeToString(h.Sum(nil)), Lines: lines}
}
