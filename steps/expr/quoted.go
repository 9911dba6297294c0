package expr

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/rungci/rung/steps/value"
)

// parseQuoted reads a double-quoted string, whose opening quote is the current token. Templates in it are expressions of
// their own, which may hold strings in turn.
func (p *parser) parseQuoted() (node, error) {
	start := p.tok.start
	var pieces []piece
	var text strings.Builder
	for {
		if p.pos >= p.end {
			if p.end < len(p.source) {
				return nil, p.tooLong()
			}
			return nil, newError(p.source, start, start+1, "", `the string is not closed: its second " is missing`)
		}
		rest := p.source[p.pos:p.end]
		switch {
		case rest[0] == '"':
			p.pos++
			return p.finishQuoted(start, pieces, text.String())
		case rest[0] == '\\':
			if err := p.readEscape(&text); err != nil {
				return nil, err
			}
		case strings.HasPrefix(rest, opening):
			inner, err := p.parseEmbedded(p.pos)
			if err != nil {
				return nil, err
			}
			pieces = append(pieces, piece{text: text.String()}, piece{inner: inner})
			text.Reset()
		default:
			length := strings.IndexAny(rest[1:], `"\$`) + 1
			if length == 0 {
				length = len(rest)
			}
			text.WriteString(rest[:length])
			p.pos += length
		}
	}
}

func (p *parser) finishQuoted(start int, pieces []piece, last string) (node, error) {
	where := at{start, p.pos}
	if err := p.advance(); err != nil {
		return nil, err
	}
	if pieces == nil {
		return &literal{where, value.OfString(last)}, nil
	}
	return &interpolation{where, append(pieces, piece{text: last})}, nil
}

var simpleEscapes = map[byte]byte{
	'\\': '\\', '"': '"', '/': '/', 'n': '\n', 'r': '\r', 't': '\t', 'a': '\a', 'b': '\b', 'f': '\f', 'v': '\v',
}

// readEscape reads the escape sequence at p.pos.
func (p *parser) readEscape(b *strings.Builder) error {
	rest := p.source[p.pos:p.end]
	if strings.HasPrefix(rest, `\`+opening) {
		b.WriteString(opening)
		p.pos += 1 + len(opening)
		return nil
	}
	if len(rest) > 1 {
		if c, ok := simpleEscapes[rest[1]]; ok {
			b.WriteByte(c)
			p.pos += 2
			return nil
		}
	}
	if r, ok := unicodeEscape(rest); ok {
		p.pos += unicodeEscapeLength
		if utf16.IsSurrogate(r) {
			low, ok := unicodeEscape(p.source[p.pos:p.end])
			pair := utf16.DecodeRune(r, low)
			if ok && pair != utf8.RuneError {
				p.pos += unicodeEscapeLength
			}
			r = pair // half a pair stands for no character: U+FFFD, as in JSON
		}
		b.WriteRune(r)
		return nil
	}
	length := 1
	if len(rest) > 1 {
		_, size := utf8.DecodeRuneInString(rest[1:])
		length += size
	}
	hint := `the escapes are \\ \" \/ \n \r \t \a \b \f \v \uXXXX and \${{; a single-quoted string has only \\ and \'`
	return newError(p.source, p.pos, p.pos+length, hint, "%s is not an escape sequence", rest[:length])
}

// unicodeEscapeLength is the length of \uXXXX.
const unicodeEscapeLength = 6

func unicodeEscape(text string) (rune, bool) {
	if len(text) < unicodeEscapeLength || text[:2] != `\u` || strings.ContainsAny(text[2:3], "+-") {
		return 0, false
	}
	code, err := strconv.ParseUint(text[2:unicodeEscapeLength], 16, 32)
	return rune(code), err == nil
}
