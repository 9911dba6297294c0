package github

import (
	"math"
	"strings"
	"unicode"
	"unicode/utf8"
)

type tokenKind uint8

const (
	tokenStart  tokenKind = iota // before the first one
	tokenEnd                     // the end of the expression
	tokenNumber                  // number is set
	tokenString                  // text is what it stands for
	tokenName
	tokenSymbol // an operator or punctuation
)

type token struct {
	kind       tokenKind
	start, end int // in bytes of the source
	text       string
	number     float64
}

// is reports whether the token is the given symbol.
func (t token) is(symbol string) bool { return t.kind == tokenSymbol && t.text == symbol }

// beforeOperand reports whether an operand comes after the token, and no operator: there a point begins a number.
func (t token) beforeOperand() bool {
	switch t.kind {
	case tokenStart:
		return true
	case tokenSymbol:
		return t.text != ")" && t.text != "]" && t.text != "*"
	default:
		return false
	}
}

// symbols are the operators and the punctuation, longer ones first.
var symbols = []string{"&&", "||", "==", "!=", "<=", ">=", "<", ">", "!", "(", ")", "[", "]", ",", "*"}

// advance reads the next token into p.tok.
func (p *parser) advance() error {
	for p.pos < p.end {
		r, size := utf8.DecodeRuneInString(p.source[p.pos:p.end])
		if !unicode.IsSpace(r) {
			break
		}
		p.pos += size
	}
	start, operand := p.pos, p.tok.beforeOperand()
	if start >= p.end {
		p.tok = token{kind: tokenEnd, start: p.end, end: p.end}
		return nil
	}
	switch c := p.source[start]; {
	case c == '\'':
		return p.readString()
	case c == '.' && !operand:
		p.take(tokenSymbol, start+1)
		return nil
	case c == '.' || c == '+' || c == '-' || c >= '0' && c <= '9':
		return p.readNumber()
	}
	for _, symbol := range symbols {
		if strings.HasPrefix(p.source[start:p.end], symbol) {
			p.take(tokenSymbol, start+len(symbol))
			return nil
		}
	}
	_, size := utf8.DecodeRuneInString(p.source[start:p.end])
	p.take(tokenName, p.wordEnd(start+size))
	if !isName(p.tok.text) {
		return p.unexpected()
	}
	return nil
}

// take makes what is left up to the given place the current token.
func (p *parser) take(kind tokenKind, end int) {
	p.tok = token{kind: kind, start: p.pos, end: end, text: p.source[p.pos:end]}
	p.pos = end
}

// wordEnd returns where the word ends that goes on at the given place.
func (p *parser) wordEnd(from int) int {
	for i, r := range p.source[from:p.end] {
		if strings.ContainsRune("([]),.!<>=&|", r) || unicode.IsSpace(r) {
			return from + i
		}
	}
	return p.end
}

func (p *parser) readNumber() error {
	end := p.wordEnd(p.pos + 1)
	for end < p.end && p.source[end] == '.' {
		end = p.wordEnd(end + 1)
	}
	p.take(tokenNumber, end)
	if p.tok.number = parseNumber(p.tok.text); math.IsNaN(p.tok.number) {
		return p.unexpected()
	}
	return nil
}

// readString reads a string, in which two quotes stand for one.
func (p *parser) readString() error {
	start := p.pos
	for i := start + 1; i < p.end; i++ {
		if p.source[i] != '\'' {
			continue
		}
		if i+1 < p.end && p.source[i+1] == '\'' {
			i++
			continue
		}
		p.take(tokenString, i+1)
		p.tok.text = strings.ReplaceAll(p.source[start+1:i], "''", "'")
		return nil
	}
	return newError(p.source, start, start+1, "write '' for a quote in a string", "the string is not closed: its second ' is missing")
}

// isName reports whether the text can be the name of a context, a function or a property after a point.
func isName(text string) bool {
	for i := range len(text) {
		c := text[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_'
		if !letter && (i == 0 || c != '-' && (c < '0' || c > '9')) {
			return false
		}
	}
	return text != ""
}

// unexpected is the error about the current token.
func (p *parser) unexpected() error {
	t := p.tok
	if t.kind == tokenEnd {
		return newError(p.source, t.start, t.end, "", "the expression ends too early")
	}
	text := p.source[t.start:t.end]
	hint := wordHints[strings.ToLower(text)]
	if hint == "" {
		r, _ := utf8.DecodeRuneInString(text)
		hint = symbolHints[r]
	}
	return newError(p.source, t.start, t.end, hint, "unexpected symbol %s", quote(text))
}

// wordHints and symbolHints help with words and symbols of other languages.
var (
	wordHints   = map[string]string{"and": "logical and is &&", "or": "logical or is ||", "not": "logical not is !"}
	symbolHints = map[rune]string{
		'"': "strings are in single quotes",
		'=': "compare with ==",
		'&': "logical and is &&",
		'|': "logical or is ||",
		'?': "there is no ?: operator; write case(condition, 'yes', 'no')",
		'$': "write the name as it is: env.HOME, not $HOME; and no ${{ }} inside of an expression",
		'+': "there is no arithmetic; use format('{0}{1}', a, b)",
		'-': "there is no arithmetic",
		'*': "there is no arithmetic; a filter is written foo.* or foo[*]",
		'/': "there is no arithmetic",
		'%': "there is no arithmetic",
		'{': "objects are made by fromJSON('{…}')",
	}
)
