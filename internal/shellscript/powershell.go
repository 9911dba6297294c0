package shellscript

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rungci/rung/internal/lazyregexp"
)

// PowerShell takes typographic quotes for plain ones.
const (
	singleQuotes = "'‘’‚‛"
	doubleQuotes = "\"“”„"
)

// integers are written as numbers, so that they compare as numbers. They print as they were written.
var integers = lazyregexp.New(`^(0|-?[1-9][0-9]{0,17})$`)

// quotePowershell writes a value as PowerShell reads it.
func quotePowershell(value string) string {
	if integers.MatchString(value) {
		return value
	}
	return literalPowershell(value)
}

// literalPowershell writes a text as a string.
func literalPowershell(text string) string {
	var b strings.Builder
	b.WriteByte('\'')
	for _, r := range text {
		if strings.ContainsRune(singleQuotes, r) {
			b.WriteRune(r)
		}
		b.WriteRune(r)
	}
	b.WriteByte('\'')
	return b.String()
}

// firstStatement finds what must be the first statement of a script, before which no variable can be set.
var firstStatement = lazyregexp.New(`(?i)^(param\s*\(|using\s+\w|\[CmdletBinding\b|(begin|process|end|dynamicparam|clean)\s*\{)`)

// mode is what a PowerShell text is in.
type mode uint8

const (
	code       mode = iota
	nested          // code in $( ) in a string; ends with its parenthesis
	double          // "…"
	single          // '…'
	doubleHere      // @" … "@
	singleHere      // @' … '@
	comment         // # …
	blockNote       // <# … #>
	verbatim        // the rest of a line after --%
)

// powershell reads a script just well enough to know what each slot is in.
type powershell struct {
	*source
	pos    int
	modes  []mode
	parens []int // open parentheses of each nested mode
	first  bool  // whether a statement has been seen
	slots  []slot
	at     map[int]int // the slot that starts at a place
	quote  int         // where the string in single quotes begins that a single or singleHere mode is in
	turned []turned
}

// turned is a string in single quotes that holds slots, and gets double ones.
type turned struct {
	start, end int // in the text
	here       bool
}

func parsePowershell(src *source) (*Script, error) {
	p := &powershell{source: src, modes: []mode{code}, at: map[int]int{}}
	for i, part := range src.slots {
		start, _ := src.span(i)
		p.at[start] = i
		p.slots = append(p.slots, slot{part: part})
	}
	for p.pos < len(p.text) {
		if i, ok := p.at[p.pos]; ok {
			if err := p.place(i); err != nil {
				return nil, err
			}
			_, p.pos = src.span(i)
			p.first = true
			continue
		}
		if err := p.step(); err != nil {
			return nil, err
		}
	}
	switch p.mode() {
	case double, single, doubleHere, singleHere:
		return nil, src.errorAt(len(p.text), "the script ends inside a string", "close its quotes")
	case blockNote:
		return nil, src.errorAt(len(p.text), "the script ends inside a comment", "close it with #>")
	}
	return &Script{text: p.turnedText(), slots: p.slots}, nil
}

func (p *powershell) mode() mode { return p.modes[len(p.modes)-1] }

func (p *powershell) push(m mode, length int) {
	p.modes = append(p.modes, m)
	if m == nested {
		p.parens = append(p.parens, 0)
	}
	p.pos += length
}

func (p *powershell) pop(length int) {
	if p.mode() == nested {
		p.parens = p.parens[:len(p.parens)-1]
	}
	p.modes = p.modes[:len(p.modes)-1]
	p.pos += length
}

// step moves over one character, or one mark that begins or ends something.
func (p *powershell) step() error {
	rest := p.text[p.pos:]
	r, size := utf8.DecodeRuneInString(rest)
	switch p.mode() {
	case code, nested:
		return p.stepCode(rest, r, size)
	case double, doubleHere:
		p.stepDouble(rest, r, size)
	case single:
		p.stepSingle(rest, r, size)
	case singleHere:
		p.endHere(singleQuotes, r, size)
	case comment, verbatim:
		if r == '\n' {
			p.pop(0)
		} else {
			p.pos += size
		}
	case blockNote:
		if strings.HasPrefix(rest, "#>") {
			p.pop(2)
		} else {
			p.pos += size
		}
	}
	return nil
}

func (p *powershell) stepCode(rest string, r rune, size int) error {
	if !p.first && !unicode.IsSpace(r) && r != '#' && !strings.HasPrefix(rest, "<#") {
		if firstStatement.MatchString(rest) {
			return p.errorAt(p.pos, "a script with expressions cannot begin with param, using or a named block: the values are set before its first statement",
				"pass the values as variables (env: {NAME: ${{ … }}}) and read them from $env:NAME")
		}
		p.first = true
	}
	_, nextSize := utf8.DecodeRuneInString(rest[size:])
	next := rest[size : size+nextSize]
	switch {
	case r == '`':
		if _, slot := p.at[p.pos+size]; !slot {
			size += nextSize
		}
		p.pos += size
	case strings.HasPrefix(rest, "<#"):
		p.push(blockNote, 2)
	case r == '#' && p.atToken():
		p.push(comment, size)
	case strings.HasPrefix(rest, "--%") && p.atToken():
		p.push(verbatim, len("--%"))
	case r == '@' && next != "" && strings.Contains(doubleQuotes, next) && blankLine(rest[size+nextSize:]):
		p.push(doubleHere, size+nextSize)
	case r == '@' && next != "" && strings.Contains(singleQuotes, next) && blankLine(rest[size+nextSize:]):
		p.quote = p.pos
		p.push(singleHere, size+nextSize)
	case strings.ContainsRune(doubleQuotes, r):
		p.push(double, size)
	case strings.ContainsRune(singleQuotes, r):
		p.quote = p.pos
		p.push(single, size)
	case p.mode() == nested && r == '(':
		p.parens[len(p.parens)-1]++
		p.pos += size
	case p.mode() == nested && r == ')':
		if p.parens[len(p.parens)-1] == 0 {
			p.pop(size)
		} else {
			p.parens[len(p.parens)-1]--
			p.pos += size
		}
	default:
		p.pos += size
	}
	return nil
}

// blankLine reports whether nothing but blanks comes before the end of the line.
func blankLine(text string) bool {
	line, _, _ := strings.Cut(text, "\n")
	return strings.TrimSpace(line) == ""
}

// atToken reports whether a new word begins here, and with it perhaps a comment.
func (p *powershell) atToken() bool {
	if p.pos == 0 {
		return true
	}
	r, _ := utf8.DecodeLastRuneInString(p.text[:p.pos])
	return unicode.IsSpace(r) || strings.ContainsRune("(){};|&,=", r)
}

func (p *powershell) stepDouble(rest string, r rune, size int) {
	switch {
	case r == '`':
		if _, slot := p.at[p.pos+size]; !slot {
			_, nextSize := utf8.DecodeRuneInString(rest[size:])
			size += nextSize
		}
		p.pos += size
	case strings.HasPrefix(rest, "$("):
		p.push(nested, 2)
	case p.mode() == doubleHere:
		p.endHere(doubleQuotes, r, size)
	case strings.ContainsRune(doubleQuotes, r):
		if next, nextSize := utf8.DecodeRuneInString(rest[size:]); strings.ContainsRune(doubleQuotes, next) && nextSize > 0 {
			p.pos += size + nextSize // a doubled quote is a quote
		} else {
			p.pop(size)
		}
	default:
		p.pos += size
	}
}

func (p *powershell) stepSingle(rest string, r rune, size int) {
	if !strings.ContainsRune(singleQuotes, r) {
		p.pos += size
		return
	}
	if next, nextSize := utf8.DecodeRuneInString(rest[size:]); strings.ContainsRune(singleQuotes, next) && nextSize > 0 {
		p.pos += size + nextSize
		return
	}
	p.pop(size)
	p.endTurned()
}

// endTurned ends a string in single quotes.
func (p *powershell) endTurned() {
	if n := len(p.turned); n > 0 && p.turned[n-1].start == p.quote {
		p.turned[n-1].end = p.pos
	}
}

// turnedText is the text with double quotes around the strings that hold slots. What would mean something in those is escaped.
func (p *powershell) turnedText() string {
	var b strings.Builder
	from := 0
	for _, t := range p.turned {
		b.WriteString(p.text[from:t.start])
		from = t.end
		open, end := `"`, `"`
		start := t.start
		if t.here {
			open, end, start = `@"`, `"@`, t.start+1
			t.end--
		}
		_, first := utf8.DecodeRuneInString(p.text[start:])
		_, last := utf8.DecodeLastRuneInString(p.text[:t.end])
		b.WriteString(open)
		p.escapeInto(&b, start+first, t.end-last, t.here)
		b.WriteString(end)
	}
	b.WriteString(p.text[from:])
	return b.String()
}

// escapeInto writes what is between two places of the text, which are in single quotes, as it is in double ones.
func (p *powershell) escapeInto(b *strings.Builder, from, to int, here bool) {
	for pos := from; pos < to; {
		if i, slot := p.at[pos]; slot {
			start, end := p.span(i)
			b.WriteString(p.text[start:end])
			pos = end
			continue
		}
		r, size := utf8.DecodeRuneInString(p.text[pos:])
		pos += size
		switch {
		case r == '`' || r == '$' || strings.ContainsRune(doubleQuotes, r):
			b.WriteRune('`')
		case !here && strings.ContainsRune(singleQuotes, r): // it is there twice
			_, second := utf8.DecodeRuneInString(p.text[pos:])
			pos += second
		}
		b.WriteRune(r)
	}
}

// endHere ends a here-string at a quote and @ at the start of a line.
func (p *powershell) endHere(quotes string, r rune, size int) {
	if strings.ContainsRune(quotes, r) && strings.HasPrefix(p.text[p.pos+size:], "@") && strings.HasSuffix(p.text[:p.pos], "\n") {
		p.pop(size + 1)
		if quotes == singleQuotes {
			p.endTurned()
		}
		return
	}
	p.pos += size
}

const standAloneHint = `put the whole word in double quotes, as in "name-${{ … }}.txt"`

// place checks that a slot can be a variable where it stands.
func (p *powershell) place(i int) error {
	start, end := p.span(i)
	before, _ := utf8.DecodeLastRuneInString(p.text[:start])
	after, _ := utf8.DecodeRuneInString(p.text[end:])
	switch p.mode() {
	case single, singleHere: // where nothing is expanded
		if n := len(p.turned); n == 0 || p.turned[n-1].start != p.quote {
			p.turned = append(p.turned, turned{start: p.quote, here: p.mode() == singleHere})
		}
		return nil
	case verbatim:
		return p.slotError(i, "an expression cannot stand after --%, where PowerShell expands nothing", "leave out the --% and quote the arguments")
	case comment, blockNote:
		p.slots[i].needs = commentOnly
		return nil
	case double, doubleHere:
		if ticks := len(p.text[:start]) - len(strings.TrimRight(p.text[:start], "`")); ticks%2 == 1 {
			return p.slotError(i, "a backtick before an expression would take away its meaning", "leave it out, or write two for one backtick")
		}
		if before == '$' {
			return p.slotError(i, "a $ before an expression would make its value the name of a variable", "write the expression without it, or use (Get-Variable \"${{ … }}\").Value")
		}
		return nil
	}
	if start > 0 && !unicode.IsSpace(before) && !strings.ContainsRune("(){};|,=[", before) ||
		end < len(p.text) && !unicode.IsSpace(after) && !strings.ContainsRune(")};|,]", after) {
		return p.slotError(i, "outside quotes an expression must stand alone in PowerShell, as it is a variable there", standAloneHint)
	}
	return nil
}
