// Package shellscript puts values into shell text so that they cannot become code.
//
// A script is literal text with slots for values. Render does not splice a value into the text. It sets a variable to the
// value on the first line and puts a reference to that variable into the slot, in the form that the quotes around the slot
// ask for. A slot thus means what a shell variable means: outside quotes it is split into words and its patterns match
// files, inside quotes (of any kind, and in here-documents of any kind) it stays as it is. What splicing did beyond that is
// gone on purpose: a value cannot hold quotes, operators, redirections, alternatives of a case pattern or further commands.
//
// Some places take a value apart even when it comes from a variable. There Render accepts only values that cannot do harm,
// and says how to write the script so that it takes all of them:
//
//   - arithmetic, array subscripts and -eq in [[ ]]: the shell evaluates text there, and a[$(command)] with it: numbers only;
//   - names of variables (declare, read, printf -v, test -v), where a subscript is evaluated just so: no brackets;
//   - text that a shell gets as code (eval, trap, bash -c, a here-document for bash) with the value in the midst of it: only
//     characters that mean nothing to a shell. When such an argument is nothing but one slot, its author wants the value to be
//     code, and it is.
//
// It protects the script's own shell. What other programs do with the arguments they get, such as options that begin with a
// dash or code for python -c, is theirs.
package shellscript

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Dialect is the language of a script.
type Dialect string

// The dialects. Sh text may use all that bash has, as sh is bash on some systems; the values that its first line holds are
// written as any POSIX shell reads them.
const (
	Bash       Dialect = "bash"
	Sh         Dialect = "sh"
	Pwsh       Dialect = "pwsh"
	Powershell Dialect = "powershell"
	Cmd        Dialect = "cmd"
	// Zsh is for Mark alone: elsewhere its scripts are like those of bash.
	Zsh Dialect = "zsh"
)

// Part is a piece of a script: literal text, or a slot for a value. Slots are numbered in order.
type Part struct {
	Text string // of a literal part
	Slot bool
}

// Error says what is wrong with a script or a value, and where.
type Error struct {
	Part    int    // the index of the part; that of a slot when the slot or its value is meant
	Offset  int    // in characters from the start of that part; 0 for slots
	Message string // what is wrong
	Hint    string // what to do about it
}

// Error returns the message and the hint.
func (e *Error) Error() string {
	if e.Hint == "" {
		return e.Message
	}
	return e.Message + "; " + e.Hint
}

// Script is a script that is ready for its values. It may be used by several goroutines at the same time.
type Script struct {
	dialect  Dialect
	variable string // the name of the variables, without the number of the slot
	text     string
	slots    []slot
}

// slot is a place for a value.
type slot struct {
	part  int
	needs need
}

// Parse finds out where each slot stands. Text without slots is taken as it is and never parsed. The error is an *Error.
func Parse(parts []Part, d Dialect) (*Script, error) {
	src := join(parts)
	if len(src.slots) == 0 {
		return &Script{dialect: d, text: src.text}, nil
	}
	var rewrite func(*source) (*Script, error)
	switch d {
	case Bash, Sh:
		rewrite = parsePosix
	case Pwsh, Powershell:
		rewrite = parsePowershell
	case Cmd:
		return nil, src.slotError(0, "expressions in a cmd script cannot be made safe: cmd reads every value as code",
			"pass the value as a variable (env: {NAME: ${{ … }}}) and use it as !NAME! after setlocal EnableDelayedExpansion")
	default:
		return nil, &Error{Message: fmt.Sprintf("%q is not a shell; the shells are bash, sh, pwsh, powershell and cmd", string(d))}
	}
	script, err := rewrite(src)
	if err != nil {
		return nil, err
	}
	script.dialect, script.variable = d, src.variable
	return script, nil
}

// Render returns the text to run for one value a slot. The values are before the first line, so the text keeps its line
// numbers, except that a value with line breaks adds them in dialects other than bash. The error is an *Error.
func (s *Script) Render(values []string) (string, error) {
	if len(values) != len(s.slots) {
		return "", &Error{Message: fmt.Sprintf("the script has %d expressions, but %d values were given", len(s.slots), len(values))}
	}
	if len(values) == 0 {
		return s.text, nil
	}
	for i, value := range values {
		if err := s.slots[i].accept(value); err != nil {
			return "", err
		}
	}
	var b strings.Builder
	for i, value := range values {
		name := fmt.Sprintf("%s%d", s.variable, i)
		switch {
		case s.slots[i].needs == commentOnly:
		case s.dialect == Bash:
			b.WriteString(name + "=" + quoteBash(value) + "; ")
		case s.dialect == Sh:
			b.WriteString(name + "=" + quoteSh(value) + "; ")
		default:
			b.WriteString("$" + name + "=" + quotePowershell(value) + "; ")
		}
	}
	b.WriteString(s.text)
	return b.String(), nil
}

// variablePrefix begins the names of the variables that hold the values.
const variablePrefix = "__rung_"

// source is a script as one text, with a reference in place of every slot.
type source struct {
	text     string
	variable string
	parts    []Part
	starts   []int // where each part starts in text, in bytes
	slots    []int // the part of each slot
}

// join picks a variable name that does not occur in the text.
func join(parts []Part) *source {
	s := &source{parts: parts, variable: variablePrefix}
	taken := func() bool {
		for _, p := range parts {
			if !p.Slot && strings.Contains(p.Text, s.variable) {
				return true
			}
		}
		return false
	}
	for taken() {
		s.variable += "_"
	}
	var b strings.Builder
	for i, p := range parts {
		s.starts = append(s.starts, b.Len())
		if p.Slot {
			b.WriteString(s.reference(len(s.slots)))
			s.slots = append(s.slots, i)
		} else {
			b.WriteString(p.Text)
		}
	}
	s.text = b.String()
	return s
}

// reference is what is in the text for a slot, in every dialect.
func (s *source) reference(slot int) string { return fmt.Sprintf("${%s%d}", s.variable, slot) }

// span returns where a slot's reference starts and ends in the text.
func (s *source) span(slot int) (start, end int) {
	start = s.starts[s.slots[slot]]
	return start, start + len(s.reference(slot))
}

// within returns the slots that stand between two places in the text.
func (s *source) within(start, end int) []int {
	var out []int
	for i := range s.slots {
		if from, to := s.span(i); from >= start && to <= end {
			out = append(out, i)
		}
	}
	return out
}

func (s *source) slotError(slot int, message, hint string) *Error {
	return &Error{Part: s.slots[slot], Message: message, Hint: hint}
}

// errorAt turns a place in the text into a part and an offset.
func (s *source) errorAt(offset int, message, hint string) *Error {
	part := 0
	for i, start := range s.starts {
		if start <= offset {
			part = i
		}
	}
	e := &Error{Part: part, Message: message, Hint: hint}
	if !s.parts[part].Slot {
		text := s.parts[part].Text
		e.Offset = utf8.RuneCountInString(text[:min(max(offset-s.starts[part], 0), len(text))])
	}
	return e
}

// plain takes the references out of a message of the parser, which its reader has never seen.
func (s *source) plain(message string) string {
	for i := range s.slots {
		message = strings.ReplaceAll(message, s.reference(i), "${{ … }}")
		message = strings.ReplaceAll(message, fmt.Sprintf("%s%d", s.variable, i), "${{ … }}")
	}
	return message
}

// edit is a change of the text between two places.
type edit struct {
	start, end int
	text       string
}

// apply makes the edits, which are in order and do not overlap.
func apply(text string, edits []edit) string {
	var b strings.Builder
	last := 0
	for _, e := range edits {
		b.WriteString(text[last:e.start])
		b.WriteString(e.text)
		last = e.end
	}
	b.WriteString(text[last:])
	return b.String()
}
