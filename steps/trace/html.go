package trace

import (
	"bufio"
	"crypto/sha256"
	_ "embed" // the page's parts
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/rungci/rung/internal/markdown"
)

// How much of the logs a page holds, in bytes. What is left out is said where it is missing.
const (
	maxPageLog  = 1 << 20  // of one step
	maxPageLogs = 24 << 20 // of all steps together, shared evenly
	minPageLog  = 8 << 10  // of one step, however many there are
)

// maxPageSummaries is how much of the summaries a page renders, in bytes of Markdown. What is beyond is shown as it was written.
const maxPageSummaries = 4 << 20

// A step's log that is too long keeps its first quarter and the rest from its end, where failures are.
const headShare = 4

//go:embed page/page.html
var pageHTML string

//go:embed page/page.css
var pageCSS string

//go:embed page/page.js
var pageJS string

// writeHTML writes one page that needs nothing else: the trace is in it as JSON, and each log as JSON of its own that the
// page parses when it shows it.
func writeHTML(w io.Writer, t *Trace) error {
	logs, err := t.pageLogs(maxPageLogs)
	if err != nil {
		return err
	}
	shown := *t
	if id := t.Identity(); identityKnown(id) {
		shown.Run.Identity = &id
	}
	data, err := json.Marshal(&shown) // escapes <, > and &, so that no text can end the script it stands in
	if err != nil {
		return fmt.Errorf("encoding the trace: %w", err)
	}
	parts := map[string]string{
		"title":  xmlText(t.Title() + " · " + t.ended()),
		"policy": "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; style-src " + sourceHash(pageCSS) + "; script-src " + sourceHash(pageJS),
		"style":  pageCSS,
		"script": pageJS,
		"data":   string(data),
	}
	out := bufio.NewWriterSize(w, maxChunk)
	rest := pageHTML
	for {
		before, after, found := strings.Cut(rest, "{{")
		out.WriteString(before)
		if !found {
			return out.Flush()
		}
		var name string
		name, rest, _ = strings.Cut(after, "}}")
		if name == "summaries" {
			t.pageSummaries(out)
			continue
		}
		if name == "logs" {
			t.Walk(func(s *Step, _ int) {
				if log := logs[s.ID]; log != nil {
					log.write(out, s.ID)
				}
			})
			continue
		}
		out.WriteString(parts[name])
	}
}

// pageSummaries writes the summaries of the steps, rendered, where nothing of them is shown or fetched until the page takes it.
func (t *Trace) pageSummaries(out *bufio.Writer) {
	room := maxPageSummaries
	t.Walk(func(s *Step, _ int) {
		if s.Summary == "" || len(s.Summary) > room {
			return
		}
		room -= len(s.Summary)
		out.WriteString(`<template id="summary-` + xmlText(s.ID) + `">` + markdown.HTML(s.Summary) + "</template>\n")
	})
}

// sourceHash allows exactly this text in a content security policy.
func sourceHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// pageLogs returns as much of every log as a page may hold that has room for so many bytes of the trace.
func (t *Trace) pageLogs(room int) (map[string]*pageLog, error) {
	withLog := 0
	t.Walk(func(s *Step, _ int) {
		if s.Log != nil {
			withLog++
		}
	})
	most := max(minPageLog, min(maxPageLog, room/max(withLog, 1)))
	logs := map[string]*pageLog{}
	err := t.Chunks(func(c Chunk) error {
		log := logs[c.Step]
		if log == nil {
			log = &pageLog{head: pagePart{room: most / headShare}, tail: pagePart{room: most - most/headShare}}
			logs[c.Step] = log
		}
		log.add(string(c.Stream), c.Data)
		return nil
	})
	return logs, err
}

// pageLog is the beginning and the end of a log.
type pageLog struct {
	head, tail pagePart
	dropped    int64 // bytes between the two
}

// pagePart is a piece of a log, cut where the stream changes.
type pagePart struct {
	room  int // in bytes
	size  int
	texts []pageText
}

type pageText struct {
	stream string
	data   []byte
}

func (p *pagePart) add(stream string, data []byte) {
	p.size += len(data)
	if n := len(p.texts); n > 0 && p.texts[n-1].stream == stream {
		p.texts[n-1].data = append(p.texts[n-1].data, data...)
		return
	}
	p.texts = append(p.texts, pageText{stream, append([]byte(nil), data...)})
}

func (l *pageLog) add(stream string, data []byte) {
	if n := min(len(data), l.head.room-l.head.size); n > 0 {
		l.head.add(stream, data[:n])
		data = data[n:]
	}
	if len(data) == 0 {
		return
	}
	l.tail.add(stream, data)
	for over := l.tail.size - l.tail.room; over > 0; over = l.tail.size - l.tail.room {
		first := &l.tail.texts[0]
		n := min(over, len(first.data))
		first.data = first.data[n:]
		l.tail.size -= n
		l.dropped += int64(n)
		if len(first.data) == 0 {
			l.tail.texts = l.tail.texts[1:]
		}
	}
}

// write writes the log as a JSON array: pairs of a stream (1 stdout, 2 stderr) and its text, one after the other. The
// number of bytes that were left out stands between them as a pair of 0 and that number.
func (l *pageLog) write(out *bufio.Writer, id string) {
	out.WriteString(`<script type="application/json" id="log-` + xmlText(id) + `">[`)
	separator := ""
	pair := func(kind, data string) {
		out.WriteString(separator + kind + "," + data)
		separator = ",\n"
	}
	texts := l.head.texts
	if l.dropped == 0 && len(texts) > 0 && len(l.tail.texts) > 0 && texts[len(texts)-1].stream == l.tail.texts[0].stream {
		texts[len(texts)-1].data = append(texts[len(texts)-1].data, l.tail.texts[0].data...)
		l.tail.texts = l.tail.texts[1:]
	}
	for _, part := range [][]pageText{texts, l.tail.texts} {
		for _, text := range part {
			kind := "1"
			if text.stream == "stderr" {
				kind = "2"
			}
			encoded, err := json.Marshal(strings.ToValidUTF8(string(text.data), "\uFFFD"))
			if err != nil {
				panic(err) // a string always encodes
			}
			pair(kind, string(encoded))
		}
		if l.dropped > 0 {
			pair("0", strconv.FormatInt(l.dropped, 10))
			l.dropped = 0
		}
	}
	out.WriteString("]</script>\n")
}
