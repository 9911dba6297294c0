package rule

import (
	"strings"
	"unicode/utf8"
)

// kind is what a token is, and what the node made of it does.
type kind uint8

const (
	tokenEnd kind = iota
	tokenOpen
	tokenClose
	tokenInput
	tokenVariable
	tokenString
	tokenPattern
	tokenNull
	tokenTrue
	tokenFalse
	tokenEqual
	tokenNotEqual
	tokenMatch
	tokenNotMatch
	tokenAnd
	tokenOr
	tokenNot
)

// symbols are the tokens with one spelling, longer ones first.
var symbols = []struct {
	text string
	kind kind
}{
	{"==", tokenEqual}, {"=~", tokenMatch}, {"!=", tokenNotEqual}, {"!~", tokenNotMatch},
	{"&&", tokenAnd}, {"||", tokenOr}, {"!", tokenNot}, {"(", tokenOpen}, {")", tokenClose},
}

// token is a piece of an expression.
type token struct {
	kind       kind
	start, end int // in bytes
	// text is the name of a variable or input, what a string holds, or a pattern as it is written.
	text string
}

const spaces = " \t\r\n\f\v"

// lex splits the text into tokens, the last of which is the end.
func lex(text string) ([]token, *Error) {
	if len(text) > MaxLength {
		return nil, newError(text, 0, 1, "", "the expression is longer than %d bytes", MaxLength)
	}
	var tokens []token
	for at := 0; ; {
		at += len(text[at:]) - len(strings.TrimLeft(text[at:], spaces))
		if at == len(text) {
			return append(tokens, token{kind: tokenEnd, start: at, end: at}), nil
		}
		t, err := next(text, at)
		if err != nil {
			return nil, err
		}
		if len(tokens) == MaxTokens {
			return nil, newError(text, t.start, t.end, "split the condition into several rules",
				"the expression has more than %d tokens, which is what GitLab accepts", MaxTokens)
		}
		tokens = append(tokens, t)
		at = t.end
	}
}

// next returns the token that begins at the offset.
func next(text string, at int) (token, *Error) {
	rest := text[at:]
	switch c := rest[0]; {
	case c == '$':
		return dollar(text, at)
	case c == '"' || c == '\'':
		return quoted(text, at)
	case c == '/':
		end, err := patternEnd(text, at)
		if err != nil {
			return token{}, err
		}
		return token{kind: tokenPattern, start: at, end: end, text: text[at:end]}, nil
	case isWord(c):
		return word(text, at)
	}
	for _, s := range symbols {
		if strings.HasPrefix(rest, s.text) {
			return token{kind: s.kind, start: at, end: at + len(s.text)}, nil
		}
	}
	return token{}, unknown(text, at)
}

// dollar reads $NAME or $[[ inputs.NAME ]].
func dollar(text string, at int) (token, *Error) {
	if strings.HasPrefix(text[at:], "$[[") {
		return input(text, at)
	}
	end := at + 1
	for end < len(text) && isWord(text[end]) {
		end++
	}
	if end > at+1 {
		return token{kind: tokenVariable, start: at, end: end, text: text[at+1 : end]}, nil
	}
	if strings.HasPrefix(text[at:], "${") {
		hint := "write a variable as $NAME in rules"
		end = at + 2
		if n := strings.IndexByte(text[at:], '}'); n > 2 {
			end = at + n + 1
			hint = "write $" + excerpt(text[at+2:end-1])
		}
		return token{}, newError(text, at, end, hint, "%s is not allowed in an expression: GitLab has no braces here", excerpt(text[at:end]))
	}
	return token{}, newError(text, at, at+1, "write a variable as $NAME", "the name of a variable is expected after $")
}

// input reads $[[ inputs.NAME ]].
func input(text string, at int) (token, *Error) {
	n := strings.Index(text[at:], "]]")
	if n < 0 {
		return token{}, newError(text, at, at+3, "write $[[ inputs.NAME ]]", "$[[ is not closed")
	}
	end := at + n + 2
	name, ok := strings.CutPrefix(strings.Trim(text[at+3:end-2], spaces), "inputs.")
	if !ok || name == "" || strings.IndexFunc(name, func(r rune) bool { return r >= utf8.RuneSelf || !isWord(byte(r)) }) >= 0 {
		return token{}, newError(text, at, end, "write $[[ inputs.NAME ]]", "%s is not an input", excerpt(text[at:end]))
	}
	return token{kind: tokenInput, start: at, end: end, text: name}, nil
}

// quoted reads a string. There are no escapes: it ends at the next quote of its kind, and on its line.
func quoted(text string, at int) (token, *Error) {
	mark := text[at]
	n := strings.IndexByte(text[at+1:], mark)
	if n < 0 || strings.IndexByte(text[at+1:at+1+n], '\n') >= 0 {
		line, _, _ := strings.Cut(text[at:], "\n")
		return token{}, newError(text, at, at+len(line), "end it with "+string(mark)+" on the same line; quoted text has no escapes", "the string is not closed")
	}
	return token{kind: tokenString, start: at, end: at + n + 2, text: text[at+1 : at+1+n]}, nil
}

// word reads null, true or false: there are no other words.
func word(text string, at int) (token, *Error) {
	end := at
	for end < len(text) && isWord(text[end]) {
		end++
	}
	name := text[at:end]
	switch name {
	case "null":
		return token{kind: tokenNull, start: at, end: end}, nil
	case "true":
		return token{kind: tokenTrue, start: at, end: end}, nil
	case "false":
		return token{kind: tokenFalse, start: at, end: end}, nil
	}
	hint := "write \"" + excerpt(name) + "\" for a text, or $" + excerpt(name) + " for a variable"
	switch strings.ToLower(name) {
	case "and":
		hint = "write && for and"
	case "or":
		hint = "write || for or"
	case "not":
		hint = "write ! for not"
	case "nil", "none", "undefined":
		hint = "write null for a variable that is not set"
	case "true", "false", "null":
		hint = "write " + strings.ToLower(name) + " in lower case"
	case "in", "matches", "contains":
		hint = "use =~ with a pattern, such as $NAME =~ /^(one|two)$/"
	}
	return token{}, newError(text, at, end, hint, "unexpected word %s", quote(name))
}

// unknown says what is wrong with a character that begins no token.
func unknown(text string, at int) *Error {
	r, size := utf8.DecodeRuneInString(text[at:])
	hint := "expressions can use $NAME, \"text\", /pattern/, null, true, false, == != =~ !~ && || ! and ( )"
	switch r {
	case '=':
		hint = "write == to compare"
	case '&':
		hint = "write && for and"
	case '|':
		hint = "write || for or"
	case '~':
		hint = "write =~ to match a pattern"
	case '<', '>':
		hint = "there are no size comparisons; use =~ with a pattern"
	case '%':
		hint = "write a variable as $NAME"
	case '`', '“', '”', '‘', '’', '„':
		hint = "write plain quotes: \" or '"
	case '{', '}', '[', ']':
		hint = "there are no lists; use =~ with a pattern, such as $NAME =~ /^(one|two)$/"
	}
	return newError(text, at, at+size, hint, "%s is not an operator", quote(text[at:at+size]))
}

func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
