package trace

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/rungci/rung/internal/lazyregexp"
)

// What stands for what varies in the logs of two runs of the same job.
const (
	TimeText     = "<time>"
	DurationText = "<duration>"
	TempText     = "<temp>"
)

// How far from its run a point in time may be to be one of the run's: its clock may show any time zone, and what a step prints
// of a file or a commit may be a little older.
const (
	dateSlack  = 26 * time.Hour
	epochSlack = time.Minute
)

// normalizer replaces times and temporary paths in the logs of one run. A number that is no time stays as it is, and so does a
// date that is not about the time of the run.
type normalizer struct{ from, to time.Time }

func newNormalizer(t *Trace) *normalizer {
	return &normalizer{from: t.Run.Started, to: t.Run.Started.Add(max(t.Run.Duration, 0))}
}

// normalRule finds one form of what varies.
type normalRule struct {
	name    string
	pattern lazyregexp.Regexp
	// outside are the characters, besides letters and digits, that cannot be beside a match.
	before, after string
	// put returns what stands for a match, of which the submatches are given; false leaves it.
	put func(n *normalizer, m []string) (string, bool)
}

const months = `(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)`

// normalRules are tried in order on what the ones before have left. Docs/replay.md has an example of each.
var normalRules = []normalRule{
	{"temporary path", lazyregexp.New(`(/tmp/|/T/|\\Temp\\|<run folder>[/\\]tmp[/\\])([^\s/\\'":,;()]+)`), "", "", (*normalizer).tempPath},
	{"timestamp", lazyregexp.New(`(\d{4})[-/](\d{2})[-/](\d{2})[T _]\d{2}:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?(?: ?(?:Z|UTC|GMT|[+-]\d{2}:?\d{2}))?`), "-/.", "-/", (*normalizer).date},
	{"date with a month's name", lazyregexp.New(`(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? )?(?:(` + months + `) {1,2}(\d{1,2})|(\d{1,2}) (` + months + `)(?: (\d{4}))?) \d{2}:\d{2}:\d{2}(?: (?:Z|[A-Z]{3,5}|[+-]\d{2,4}))?(?: (\d{4}))?`), "-.", "-", (*normalizer).namedDate},
	{"date", lazyregexp.New(`(\d{4})-(\d{2})-(\d{2})`), "-/.", "-/", (*normalizer).date},
	{"time of day", lazyregexp.New(`(?:[01]?\d|2[0-3]):[0-5]\d:[0-5]\d(?:[.,]\d{1,9})?Z?`), ":-.", ":-", always(TimeText)},
	{"duration", lazyregexp.New(`(?:\d+h)?(?:\d+m)?(?:\d+\.\d+|\d{1,3})s|\d+h\d+m|\d+(?:\.\d+)?(?:ns|us|µs|μs|ms)`), "-.", "-", always(DurationText)},
	{"duration in words", lazyregexp.New(`\d+(?:\.\d+)? ?(?:(?:nano|micro|milli)?seconds?|msecs?|secs?|minutes?|mins?|hours?)`), "-.", "-", always(DurationText)},
	{"seconds since 1970", lazyregexp.New(`(\d{19}|\d{16}|\d{13}|\d{10})(?:\.\d{1,9})?`), "-.", "-", (*normalizer).epoch},
}

func always(text string) func(*normalizer, []string) (string, bool) {
	return func(*normalizer, []string) (string, bool) { return text, true }
}

// line returns a line of a log with what varies replaced. A nil normalizer leaves it as it is.
func (n *normalizer) line(text string) string {
	if n == nil || !strings.ContainsAny(text, "0123456789") && !strings.Contains(text, "tmp") && !strings.Contains(text, "/T/") {
		return text
	}
	for i := range normalRules {
		text = n.apply(&normalRules[i], text)
	}
	return text
}

func (n *normalizer) apply(rule *normalRule, text string) string {
	re := rule.pattern()
	found := re.FindAllStringSubmatchIndex(text, -1)
	if found == nil {
		return text
	}
	var b strings.Builder
	last := 0
	for _, at := range found {
		if !rule.alone(text, at[0], at[1]) {
			continue
		}
		put, ok := rule.put(n, submatches(re, text, at))
		if !ok {
			continue
		}
		b.WriteString(text[last:at[0]])
		b.WriteString(put)
		last = at[1]
	}
	if last == 0 {
		return text
	}
	b.WriteString(text[last:])
	return b.String()
}

func submatches(re *regexp.Regexp, text string, at []int) []string {
	m := make([]string, re.NumSubexp()+1)
	for i := range m {
		if at[2*i] >= 0 {
			m[i] = text[at[2*i]:at[2*i+1]]
		}
	}
	return m
}

// alone reports whether a match is not a part of something longer. A full stop behind it ends a sentence, unless a digit follows.
func (rule *normalRule) alone(text string, start, end int) bool {
	if rule.before == "" && rule.after == "" {
		return true
	}
	if start > 0 && (wordByte(text[start-1]) || strings.IndexByte(rule.before, text[start-1]) >= 0) {
		return false
	}
	if end == len(text) {
		return true
	}
	c := text[end]
	if c == '.' && end+1 < len(text) {
		return !wordByte(text[end+1])
	}
	return !wordByte(c) && strings.IndexByte(rule.after, c) < 0
}

func wordByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

// date replaces a date that is about the time of the run.
func (n *normalizer) date(m []string) (string, bool) {
	day, err := time.Parse("2006-01-02", m[1]+"-"+m[2]+"-"+m[3])
	return TimeText, err == nil && n.near(day)
}

// namedDate does so where the month has a name and the year may be missing.
func (n *normalizer) namedDate(m []string) (string, bool) {
	year := cmp.Or(m[5], m[6])
	for _, y := range []int{n.from.Year(), n.to.Year()} {
		text := fmt.Sprintf("%s %s %s", cmp.Or(m[1], m[4]), cmp.Or(m[2], m[3]), cmp.Or(year, strconv.Itoa(y)))
		if day, err := time.Parse("Jan 2 2006", text); err == nil && n.near(day) {
			return TimeText, true
		}
	}
	return "", false
}

func (n *normalizer) near(day time.Time) bool {
	return !day.Add(24*time.Hour).Before(n.from.Add(-dateSlack)) && !day.After(n.to.Add(dateSlack))
}

// epoch replaces a count of seconds, or of thousandths, millionths or billionths of one, since 1970 that is a time of the run.
func (n *normalizer) epoch(m []string) (string, bool) {
	count, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil {
		return "", false
	}
	unit := time.Second
	for digits := len(m[1]); digits > 10; digits -= 3 {
		unit /= 1000
	}
	at := time.Unix(0, count*int64(unit))
	if at.Before(n.from.Add(-epochSlack)) || at.After(n.to.Add(epochSlack)) {
		return "", false
	}
	return TimeText, true
}

// Patterns of names that programs make up in a folder for temporary files: mktemp's, Python's, Go's, and any name that ends in
// something made up.
var tempNames = []lazyregexp.Regexp{
	lazyregexp.New(`^(tmp\.)[A-Za-z0-9]{6,}$`),
	lazyregexp.New(`^(tmp)[a-z0-9_]{8}$`),
	lazyregexp.New(`^([A-Za-z0-9_.-]*?)\d{6,}(\.[A-Za-z]+)?$`),
	lazyregexp.New(`^([A-Za-z0-9_.-]*[._-])([A-Za-z0-9]{6,16})$`),
}

// tempPath replaces what is made up in the first name below a folder for temporary files.
func (n *normalizer) tempPath(m []string) (string, bool) {
	for i, pattern := range tempNames {
		parts := pattern().FindStringSubmatch(m[2])
		if parts == nil {
			continue
		}
		if i == len(tempNames)-1 && !madeUp(parts[2]) {
			continue
		}
		put := m[1] + parts[1] + TempText
		if i == 2 {
			put += parts[2]
		}
		return put, true
	}
	return "", false
}

// madeUp reports whether a name looks as if a program had drawn it: it mixes cases or has digits between letters.
func madeUp(name string) bool {
	lower, upper, digit := false, false, false
	for _, c := range name {
		switch {
		case c >= 'a' && c <= 'z':
			lower = true
		case c >= 'A' && c <= 'Z':
			upper = true
		default:
			digit = true
		}
	}
	capitalised := upper && strings.ToLower(name[1:]) == name[1:]
	return lower && upper && !capitalised || (lower || upper) && digit
}
