package shellscript

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/rungci/rung/internal/lazyregexp"
)

// need is what a value must be to be in a slot.
type need uint8

const (
	anything    need = iota
	number           // the shell evaluates it
	noSubscript      // it may be taken for the name of a variable
	noCompound       // a value in parentheses may be taken for an array
	inert            // it is part of text that a shell runs
	commentOnly      // it is not used at all
)

// numbers are decimal ones; a shell reads a leading zero as octal, as it does in a script.
var numbers = lazyregexp.New(`^[-+]?[0-9]+(\.[0-9]+)?$`)

// accept refuses a value that could turn into code where the slot stands. The error never shows the value, which may be
// secret.
func (s slot) accept(value string) error {
	fail := func(message, hint string) error { return &Error{Part: s.part, Message: message, Hint: hint} }
	if i := strings.IndexByte(value, 0); i >= 0 && s.needs != commentOnly {
		return fail(fmt.Sprintf("the value of the expression holds a NUL byte (at byte %d), which no shell can keep", i), "pass the data in a file")
	}
	switch s.needs {
	case number:
		if !numbers.MatchString(value) {
			return fail("the value of the expression is not a number, and the shell would evaluate it as code here (arithmetic or an array subscript)",
				"assign the expression to a variable and check that before use, or compare with [ ] or case instead")
		}
	case noSubscript:
		if strings.Contains(value, "[") || strings.Contains(value, "=(") {
			return fail("the value of the expression holds a bracket, and the shell may evaluate it as a variable's name with a subscript here",
				"put the expression in double quotes, or assign it to a variable first and use that in double quotes")
		}
	case noCompound:
		if strings.HasPrefix(strings.TrimSpace(value), "(") {
			return fail("the value of the expression begins with a parenthesis, and the shell may evaluate it as an array here",
				"declare the variable first and assign the expression to it in a second command")
		}
	case inert:
		if i := strings.IndexFunc(value, notInert); i >= 0 {
			return fail(fmt.Sprintf("the value of the expression holds the character %q, and it is part of text that a shell runs as code", firstRune(value[i:])),
				`pass the value beside the code and not in it, as in bash -c 'echo "$1"' bash "${{ … }}", or in a variable of env`)
		}
	}
	return nil
}

// notInert finds the characters that mean something to a shell, in any quotes or none.
func notInert(r rune) bool {
	return !(unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("_./:@%+,=-", r)) || r == unicode.ReplacementChar
}

func firstRune(s string) rune {
	for _, r := range s {
		return r
	}
	return 0
}

// quoteSh writes a value as every POSIX shell reads it.
func quoteSh(value string) string { return "'" + strings.ReplaceAll(value, "'", `'\''`) + "'" }

var ansiEscapes = strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\n", `\n`, "\r", `\r`)

// quoteBash keeps a value on one line.
func quoteBash(value string) string {
	if strings.ContainsAny(value, "\n\r") {
		return "$'" + ansiEscapes.Replace(value) + "'"
	}
	return quoteSh(value)
}
