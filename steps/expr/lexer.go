package expr

import (
	"regexp"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

type tokenKind uint8

const (
	tokenEnd    tokenKind = iota // the end of the text
	tokenNumber                  // text is the number as written
	tokenName                    // an identifier, keyword or reserved word
	tokenRaw                     // a single-quoted string; text is what it stands for
	tokenQuote                   // the quote that opens a double-quoted string; the parser reads the rest
	tokenSymbol                  // an operator or punctuation
)

type token struct {
	kind       tokenKind
	start, end int // in bytes of the source
	text       string
}

// is reports whether the token is the given symbol.
func (t token) is(symbol string) bool { return t.kind == tokenSymbol && t.text == symbol }

const whitespace = " \t\r\n"

// symbols are the operators and the punctuation, longer ones before those that they begin with. A closing "}}" is two
// tokens, as it may just as well end two objects.
var symbols = []string{
	"&&", "||", "==", "!=", "<=", ">=", "<", ">", "+", "-", "*", "/", "%", "!", "(", ")", "[", "]", "{", "}", ",", ".", ":",
}

// jsonNumber is the syntax of a number, without a sign: that is an operator.
var jsonNumber = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)
})

// advance reads the next token into p.tok.
func (p *parser) advance() error {
	for p.pos < p.end && strings.IndexByte(whitespace, p.source[p.pos]) >= 0 {
		p.pos++
	}
	start := p.pos
	if start >= p.end {
		if p.end < len(p.source) {
			return p.tooLong()
		}
		p.tok = token{kind: tokenEnd, start: start, end: start}
		return nil
	}
	c := p.source[start]
	switch {
	case c >= '0' && c <= '9':
		return p.readNumber()
	case c == '\'':
		return p.readRaw()
	case c == '"':
		p.take(tokenQuote, 1)
		return nil
	}
	if length := nameLength(p.source[start:p.end]); length > 0 {
		p.take(tokenName, length)
		return nil
	}
	for _, symbol := range symbols {
		if strings.HasPrefix(p.source[start:p.end], symbol) {
			p.take(tokenSymbol, len(symbol))
			return nil
		}
	}
	_, size := utf8.DecodeRuneInString(p.source[start:p.end])
	text := p.source[start : start+size]
	return newError(p.source, start, start+size, symbolHints[text], "unexpected %s in an expression", quote(text))
}

// take makes the next length bytes the current token.
func (p *parser) take(kind tokenKind, length int) {
	start := p.pos
	p.pos += length
	p.tok = token{kind: kind, start: start, end: p.pos, text: p.source[start:p.pos]}
}

// nameLength returns how many bytes at the start of the text are an identifier, 0 if none.
func nameLength(text string) int {
	for i, r := range text {
		if r != '_' && !unicode.IsLetter(r) && (i == 0 || !unicode.IsDigit(r)) {
			return i
		}
	}
	return len(text)
}

// readNumber reads everything that looks like a part of the number, so that an error shows all of it.
func (p *parser) readNumber() error {
	i := p.pos
	for i < p.end {
		c := p.source[i]
		exponent := (c == '+' || c == '-') && (p.source[i-1] == 'e' || p.source[i-1] == 'E')
		if !exponent && c != '.' && nameLength("_"+p.source[i:i+1]) != 2 {
			break
		}
		i++
	}
	start := p.pos
	p.take(tokenNumber, i-start)
	if !jsonNumber().MatchString(p.tok.text) {
		return newError(p.source, start, i, "", "%s is not a number", quote(p.tok.text))
	}
	return nil
}

// readRaw reads a single-quoted string. Only \\ and \' are escapes; any other backslash stands for itself.
func (p *parser) readRaw() error {
	start := p.pos
	var b strings.Builder
	for i := start + 1; i < p.end; {
		switch c := p.source[i]; {
		case c == '\'':
			p.pos = i + 1
			p.tok = token{kind: tokenRaw, start: start, end: p.pos, text: b.String()}
			return nil
		case c == '\\' && i+1 < p.end && (p.source[i+1] == '\\' || p.source[i+1] == '\''):
			b.WriteByte(p.source[i+1])
			i += 2
		default:
			b.WriteByte(c)
			i++
		}
	}
	if p.end < len(p.source) {
		return p.tooLong()
	}
	return newError(p.source, start, start+1, "", "the string is not closed: its second ' is missing")
}

// symbolHints help with symbols and words of other languages.
var symbolHints = map[string]string{
	"=":   "compare with ==",
	"&":   "logical and is &&",
	"|":   "logical or is ||",
	"?":   `there is no ?: operator; write: condition && "yes" || "no"`,
	"`":   "put strings in double or single quotes",
	"$":   `expressions use names as they are: env.HOME, not $HOME`,
	"and": "logical and is &&",
	"or":  "logical or is ||",
	"not": "logical not is !",
	"in":  "compare with ==; there is no test for membership",
}
