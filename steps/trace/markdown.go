package trace

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/value"
)

// What a Markdown summary shows at most. Together it stays below 1 MiB, which is what GitHub takes as a step summary and GitLab as a comment.
const (
	markdownSteps       = 200
	markdownFailures    = 10
	markdownAnnotations = 50
	markdownValues      = 50
	markdownWarnings    = 20
	markdownLogLines    = 20
	markdownText        = 300       // characters of a message or a value
	markdownName        = 80        // characters of a name
	markdownCommit      = 8         // digits of a commit
	markdownBlock       = 8 << 10   // bytes of a log or an excerpt
	markdownSummaries   = 192 << 10 // bytes of all summaries of steps
	maxMarkdownBytes    = 1_000_000 // held by a test
)

// writeMarkdown writes what one has to know of a run, for a step summary or a comment. Text of the run is always in code elements, blocks and
// quotes, where it can neither change the document nor mention anybody.
func writeMarkdown(w io.Writer, t *Trace) error {
	tails, err := t.tails()
	if err != nil {
		return err
	}
	m := &markdownPrinter{out: bufio.NewWriter(w), trace: t, tails: tails}
	m.header()
	m.failures()
	m.steps()
	m.outputs()
	m.annotations()
	m.warnings()
	m.summaries()
	return m.out.Flush()
}

type markdownPrinter struct {
	out   *bufio.Writer
	trace *Trace
	tails map[string][]byte
}

func (m *markdownPrinter) header() {
	r := m.trace.Run
	id := m.trace.Identity()
	name := cmp.Or(id.Job, r.ID)
	fmt.Fprintf(m.out, "### %s %s: %s", symbols[r.Status], markdownCode(name, markdownName), r.Status)
	if m.trace.Incomplete {
		m.out.WriteString(", the trace ends before the run")
	}
	if m.trace.Allowed() {
		m.out.WriteString(", " + allowedText)
	}
	if r.ExitCode != nil && *r.ExitCode != 0 {
		fmt.Fprintf(m.out, " (exit %d)", *r.ExitCode)
	}
	fmt.Fprintf(m.out, " in %s\n\n", shortDuration(r.Duration))
	facts := []string{countText(r.Counts)}
	if found := annotationCounts(m.trace); found != "" {
		facts = append(facts, found)
	}
	if identityKnown(id) && id.Commit != "" {
		facts = append(facts, markdownCode(strings.TrimSpace(id.Ref+" "+id.Commit[:min(len(id.Commit), markdownCommit)]), markdownName))
	}
	facts = append(facts, r.Started.UTC().Format("2006-01-02 15:04:05 UTC"))
	if image := m.trace.ignoredImage(); image != "" {
		facts = append(facts, "without its image "+markdownCode(image, markdownName))
	}
	fmt.Fprintf(m.out, "%s\n", strings.Join(slices.DeleteFunc(facts, func(s string) bool { return s == "" }), " · "))
}

// failures shows why the run failed: the steps that failed by themselves, or what the run says where no step did.
func (m *markdownPrinter) failures() {
	shown, more := 0, 0
	m.trace.Walk(func(s *Step, _ int) {
		switch {
		case s.Error == nil || isList(s) || s.Allowed:
		case shown == markdownFailures:
			more++
		default:
			shown++
			title := markdownCode(strings.Join(m.trace.names(s), " / "), 2*markdownName)
			m.failure(title, s.Error, s.Error.Within(WithoutRounds(s.ID)), lastLines(m.tails[s.ID]))
		}
	})
	if e := m.trace.Run.Error; e != nil && shown == 0 {
		m.failure("the run", e, e.Error(), "")
	}
	if more > 0 {
		fmt.Fprintf(m.out, "\n%s not shown.\n", counted(more, "more failure"))
	}
}

func (m *markdownPrinter) failure(title string, e *event.Error, text, log string) {
	fmt.Fprintf(m.out, "\n#### ✗ %s\n\n%s\n", title, markdownCode(text, markdownText))
	var b strings.Builder
	for i, d := range e.Diagnostics {
		if i > 0 && d.Note {
			b.WriteString("note: " + d.Message + "\n")
		} else if d.Message != e.Message {
			b.WriteString("error: " + d.Message + "\n")
		}
		b.WriteString("--> " + d.Span.String() + "\n" + d.Snippet())
	}
	m.block(b.String())
	if e.Hint != "" {
		fmt.Fprintf(m.out, "\nHint: %s\n", markdownCode(e.Hint, markdownText))
	}
	if lines := splitLines(log); len(lines) > 0 {
		lines = lines[max(0, len(lines)-markdownLogLines):]
		m.open(fmt.Sprintf("Last %s of the log", counted(len(lines), "line")), true)
		m.block(strings.Join(lines, "\n"))
		m.close()
	}
}

// steps are the table of all steps, folded where all went well.
func (m *markdownPrinter) steps() {
	total := 0
	m.trace.Walk(func(*Step, int) { total++ })
	if total == 0 {
		return
	}
	m.open(counted(total, "step"), m.trace.Run.Status != event.Success)
	m.out.WriteString("\n| | Step | Time | |\n|---|---|--:|---|\n")
	row := 0
	m.trace.Walk(func(s *Step, depth int) {
		if row++; row > markdownSteps {
			return
		}
		label := s.label()
		if i := strings.IndexByte(s.ID, '#'); i >= 0 {
			label += " " + s.ID[i:]
		}
		took := ""
		if s.Status != event.Skipped {
			took = shortDuration(s.Duration)
		}
		notes := (&textPrinter{}).notes(s)
		fmt.Fprintf(m.out, "| %s | %s%s | %s | %s |\n", symbols[s.Status], strings.Repeat("&emsp;", min(depth, 8)),
			markdownCode(label, markdownName), took, markdownCode(notes, 2*markdownName))
	})
	if more := total - markdownSteps; more > 0 {
		fmt.Fprintf(m.out, "\n%s not shown.\n", counted(more, "more step"))
	}
	m.close()
}

// outputs are those of the run. One that is sensitive has no value in a trace.
func (m *markdownPrinter) outputs() {
	if len(m.trace.Run.Outputs) == 0 {
		return
	}
	m.open(counted(len(m.trace.Run.Outputs), "output"), true)
	m.out.WriteString("\n| Output | Value |\n|---|---|\n")
	keys := slices.Sorted(maps.Keys(m.trace.Run.Outputs))
	for _, key := range keys[:min(len(keys), markdownValues)] {
		v := m.trace.Run.Outputs[key]
		text := valueText(v)
		if v.Kind() == value.String {
			text = v.Str()
		}
		fmt.Fprintf(m.out, "| %s | %s |\n", markdownCode(key, markdownName), markdownCode(text, markdownText))
	}
	if more := len(keys) - markdownValues; more > 0 {
		fmt.Fprintf(m.out, "\n%s not shown.\n", counted(more, "more output"))
	}
	m.close()
}

func (m *markdownPrinter) annotations() {
	total, levels := 0, []event.AnnotationLevel{event.AnnotationError, event.AnnotationWarning, event.AnnotationNotice}
	m.trace.Walk(func(s *Step, _ int) { total += len(s.Annotations) + s.AnnotationsLeftOut })
	if total == 0 {
		return
	}
	m.open(counted(total, "annotation"), true)
	m.out.WriteString("\n| | Place | Message |\n|---|---|---|\n")
	shown := 0
	for _, level := range levels { // errors are never crowded out by notices
		m.trace.Walk(func(s *Step, _ int) {
			for _, a := range s.Annotations {
				if cmp.Or(a.Level, event.AnnotationNotice) != level || shown == markdownAnnotations {
					continue
				}
				shown++
				place := annotationPlace(a)
				a.File, a.Level = "", ""
				_, text, _ := strings.Cut(annotationLine(a), "  ")
				fmt.Fprintf(m.out, "| %s | %s | %s |\n", level, markdownCode(place, 2*markdownName), markdownCode(text, markdownText))
			}
		})
	}
	if more := total - shown; more > 0 {
		fmt.Fprintf(m.out, "\n%s not shown.\n", counted(more, "more annotation"))
	}
	m.close()
}

func (m *markdownPrinter) warnings() {
	list := m.trace.Warnings
	if len(list) == 0 {
		return
	}
	m.out.WriteString("\n")
	for _, w := range list[:min(len(list), markdownWarnings)] {
		fmt.Fprintf(m.out, "- ⚠ %s\n", markdownCode(w.Message, markdownText))
	}
	if more := len(list) - markdownWarnings; more > 0 {
		fmt.Fprintf(m.out, "- %s not shown\n", counted(more, "more warning"))
	}
}

// summaries are what steps wrote about themselves. They are Markdown, so they are quoted: whatever one leaves open, a fence or an element, ends
// with its quote.
func (m *markdownPrinter) summaries() {
	room, more := markdownSummaries, 0
	m.trace.Walk(func(s *Step, _ int) {
		if s.Summary == "" {
			return
		}
		if room < 0 {
			more++
			return
		}
		fmt.Fprintf(m.out, "\n#### %s\n\n", markdownCode(s.label(), markdownName))
		lines := splitLines(strings.ReplaceAll(strings.ToValidUTF8(s.Summary, "\uFFFD"), "\r", "\n"))
		for i, line := range lines {
			if room -= len(line) + 3; room < 0 {
				fmt.Fprintf(m.out, "\n%s not shown.\n", counted(len(lines)-i, "more line"))
				return
			}
			m.out.WriteString("> " + line + "\n")
		}
	})
	if more > 0 {
		fmt.Fprintf(m.out, "\nThe summaries of %s are not shown.\n", counted(more, "more step"))
	}
}

// open begins a part that can be folded.
func (m *markdownPrinter) open(title string, unfolded bool) {
	attr := ""
	if unfolded {
		attr = " open"
	}
	fmt.Fprintf(m.out, "\n<details%s><summary>%s</summary>\n", attr, title)
}

func (m *markdownPrinter) close() { m.out.WriteString("\n</details>\n") }

// block writes text as a block of code whose fence is longer than any in it.
func (m *markdownPrinter) block(text string) {
	var plain plainer
	text = string(plain.append(nil, []byte(strings.ToValidUTF8(text, "\uFFFD"))))
	text = strings.TrimRight(strings.Map(dropDirections, text), "\n")
	if text == "" {
		return
	}
	if cut := len(text) - markdownBlock; cut > 0 {
		for cut < len(text) && !utf8.RuneStart(text[cut]) {
			cut++
		}
		text = "…" + text[cut:]
	}
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	fmt.Fprintf(m.out, "\n%stext\n%s\n%s\n", fence, text, fence)
}

// dropDirections removes the characters that turn the direction of text.
func dropDirections(r rune) rune {
	if 0x202a <= r && r <= 0x202e || 0x2066 <= r && r <= 0x2069 {
		return -1
	}
	return r
}

// markdownCode shows text of up to so many characters in a code element: as text in any place of Markdown, a cell of a table included, and
// without what GitHub and GitLab make of @names, #numbers and addresses.
func markdownCode(s string, most int) string {
	s = strings.TrimSpace(strings.Map(dropDirections, oneLine(s)))
	if s == "" {
		return ""
	}
	var b strings.Builder
	b.WriteString("<code>")
	for _, r := range cut(s, most) {
		switch {
		case r > '~', r >= '0' && r <= '9', r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', strings.ContainsRune(" -,/=()%;+?'", r):
			b.WriteRune(r)
		case r == '.' && !strings.HasSuffix(strings.ToLower(b.String()), "www"):
			b.WriteRune(r)
		default:
			fmt.Fprintf(&b, "&#%d;", r)
		}
	}
	b.WriteString("</code>")
	return b.String()
}
