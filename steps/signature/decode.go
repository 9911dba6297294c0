package signature

import (
	"encoding/base64"
	"strings"
)

// ParseEnvelope reads an envelope. It takes one form only, in which no byte can change without a change of meaning: JSON
// without white space between its parts and without escapes in its strings, every field once, standard base64 with padding,
// and at most a line feed at the end. That is what Encode writes, and what most programs write. The error is a *FormatError.
func ParseEnvelope(data []byte) (*Envelope, error) {
	if len(data) > MaxEnvelope {
		return nil, formatError("it is larger than %d MiB, the limit for an envelope", MaxEnvelope>>20)
	}
	p := parser{text: string(data)}
	e := p.envelope()
	if p.err == nil && p.at < len(p.text) && p.text[p.at:] != "\n" {
		p.fail("something stands behind its end")
	}
	if p.err != nil {
		return nil, p.err
	}
	return e, nil
}

// parser reads the envelope from front to back. After its first error it reads nothing more.
type parser struct {
	text string
	at   int
	err  error
}

func (p *parser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = formatError("it is not a DSSE envelope, at byte %d: "+format, append([]any{p.at + 1}, args...)...)
	}
}

// peek reports whether c comes next.
func (p *parser) peek(c byte) bool { return p.err == nil && p.at < len(p.text) && p.text[p.at] == c }

// take reads c if it comes next.
func (p *parser) take(c byte) bool {
	if !p.peek(c) {
		return false
	}
	p.at++
	return true
}

func (p *parser) expect(c byte) {
	switch {
	case p.take(c) || p.err != nil:
	case p.at >= len(p.text):
		p.fail("it ends too early")
	case strings.IndexByte(" \t\r\n", p.text[p.at]) >= 0:
		p.fail("there is white space, which could change unnoticed; write it in one line without any, as `jq -c` does")
	default:
		p.fail("there should be %q", c)
	}
}

// object reads an object and calls field for every key, which must be one of the names and come once.
func (p *parser) object(names []string, field func(name string)) (seen map[string]bool) {
	seen = map[string]bool{}
	p.expect('{')
	for first := true; p.err == nil && !p.take('}'); first = false {
		if !first {
			p.expect(',')
		}
		name := p.str()
		known := false
		for _, n := range names {
			known = known || n == name
		}
		switch {
		case p.err != nil:
		case !known:
			p.fail("there is no field %q", name)
		case seen[name]:
			p.fail("the field %q is there twice", name)
		default:
			seen[name] = true
			p.expect(':')
			field(name)
		}
	}
	return seen
}

func (p *parser) envelope() *Envelope {
	e := &Envelope{}
	names := []string{"payloadType", "payload", "signatures"}
	seen := p.object(names, func(name string) {
		switch name {
		case "payloadType":
			e.PayloadType = p.str()
		case "payload":
			e.Payload = p.base64()
		case "signatures":
			e.Signatures = p.signatures()
		}
	})
	for _, name := range names {
		if !seen[name] {
			p.fail("the field %q is missing", name)
		}
	}
	if len(e.Signatures) == 0 {
		p.fail("it has no signatures")
	}
	return e
}

func (p *parser) signatures() []Signature {
	var all []Signature
	p.expect('[')
	for p.err == nil && !p.take(']') {
		if len(all) > 0 {
			p.expect(',')
		}
		if len(all) == MaxSignatures {
			p.fail("it has more than %d signatures", MaxSignatures)
		}
		var s Signature
		seen := p.object([]string{"keyid", "sig"}, func(name string) {
			if name == "keyid" {
				s.KeyID = p.str()
			} else {
				s.Sig = p.base64()
			}
		})
		if !seen["sig"] {
			p.fail(`the field "sig" is missing`)
		}
		all = append(all, s)
	}
	return all
}

// str reads a string of printable ASCII without escapes.
func (p *parser) str() string {
	p.expect('"')
	start := p.at
	for p.err == nil && !p.peek('"') {
		switch {
		case p.at >= len(p.text):
			p.fail("it ends in a string")
		case p.text[p.at] == '\\':
			p.fail("there is an escape in a string, which could change unnoticed")
		case p.text[p.at] < ' ' || p.text[p.at] > '~':
			p.fail("there is a byte in a string that is not printable ASCII")
		default:
			p.at++
		}
	}
	if p.err != nil {
		return ""
	}
	p.at++
	return p.text[start : p.at-1]
}

// base64 reads a string of standard base64, in which every bit counts.
func (p *parser) base64() []byte {
	text := p.str()
	data, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil {
		p.fail("the string before is not standard base64 with padding")
	}
	return data
}
