package joblog

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"sync"
)

// masked is what GitLab shows in the place of a secret.
const masked = "[MASKED]"

// defaultPrefixes are those of GitLab's own tokens. Source: gitlab-runner 19.4.
var defaultPrefixes = []string{
	"glpat-", "gloas-", "gldt-", "glrt-", "glcbt-", "glrtr-", "glptt-", "glft-", "glimt-", "glagent-", "glsoat-", "glffct-", "_gitlab_session=", "gltok-",
}

// secretParameters are the parameters of URLs whose values are masked, whatever their case. Source: gitlab-runner 19.4.
var secretParameters = []string{
	"private_token", "authenticity_token", "rss_token", "x-amz-signature", "x-amz-credential", "x-amz-security-token",
}

// tokenSet is what a redactor looks for. It is made once and then only read.
type tokenSet struct {
	keys   []key
	starts [256]bool     // bytes that a key begins with
	pairs  [1 << 16]byte // 1 for the first two bytes of a key, which are an index in little-endian order
}

// key begins what is masked.
type key struct {
	text      string // of a parameter in lower case, with its ? or &
	parameter bool
}

// tokenSets are shared: a set takes 64 KB, and all jobs of a GitLab have the same one.
var tokenSets struct {
	sync.Mutex
	known map[string]*tokenSet
}

// maxTokenSets bounds how many are shared.
const maxTokenSets = 16

// newTokenSet returns the set of the default prefixes and more. It is not changed by anybody.
func newTokenSet(more []string) *tokenSet {
	tokenSets.Lock()
	defer tokenSets.Unlock()
	name := strings.Join(more, "\x00")
	if t := tokenSets.known[name]; t != nil {
		return t
	}
	if len(tokenSets.known) >= maxTokenSets || tokenSets.known == nil {
		tokenSets.known = map[string]*tokenSet{}
	}
	t := makeTokenSet(more)
	tokenSets.known[name] = t
	return t
}

func makeTokenSet(more []string) *tokenSet {
	t := &tokenSet{}
	for _, prefix := range slices.Concat(defaultPrefixes, more) {
		if prefix != "" {
			t.keys = append(t.keys, key{text: prefix})
		}
	}
	for _, name := range secretParameters {
		t.keys = append(t.keys, key{"?" + name + "=", true}, key{"&" + name + "=", true})
	}
	for _, k := range t.keys {
		t.starts[k.text[0]] = true
		for second := range 256 {
			if len(k.text) == 1 || k.at(1, byte(second)) {
				t.pairs[second<<8|int(k.text[0])] = 1
			}
		}
	}
	return t
}

// at reports whether a byte may be at an index of the key.
func (k *key) at(i int, c byte) bool {
	if k.parameter && c >= 'A' && c <= 'Z' {
		c += 'a' - 'A'
	}
	return k.text[i] == c
}

// find reports whether a key begins with the text, and returns the one that it is.
func (t *tokenSet) find(text []byte) (begun bool, whole *key) {
	for i := range t.keys {
		k := &t.keys[i]
		n := 0
		for n < len(text) && n < len(k.text) && k.at(n, text[n]) {
			n++
		}
		if n < len(text) {
			continue
		}
		if begun = true; n == len(k.text) {
			return true, k
		}
	}
	return begun, nil
}

// skip returns how much of the text comes before what may be the beginning of a key.
func (t *tokenSet) skip(text []byte) int {
	i := 0
	for ; len(text)-i > 8; i += 8 { // eight places with one branch
		b := text[i : i+9]
		if t.pair(b, 0)|t.pair(b, 1)|t.pair(b, 2)|t.pair(b, 3)|t.pair(b, 4)|t.pair(b, 5)|t.pair(b, 6)|t.pair(b, 7) != 0 {
			break
		}
	}
	for ; i < len(text); i++ {
		if t.starts[text[i]] && (i+1 == len(text) || t.pair(text, i) != 0) {
			return i
		}
	}
	return len(text)
}

// pair is 1 where a key may begin.
func (t *tokenSet) pair(text []byte, i int) byte {
	return t.pairs[binary.LittleEndian.Uint16(text[i:])]
}

// redactor masks tokens and credentials in URLs in a stream, wherever it is cut.
type redactor struct {
	state redactState
	held  []byte // may be the beginning of a key
}

type redactState uint8

const (
	inText     redactState = iota
	afterToken             // a prefix has been shown, and nothing of the token
	inToken                // the token is masked up to its end
	inValue                // so is the value of a parameter
)

// write passes data on, masked.
func (d *redactor) write(t *tokenSet, data []byte, emit func([]byte)) {
	for len(data) > 0 {
		switch d.state {
		case afterToken, inToken:
			n := 0
			for n < len(data) && isToken(data[n]) {
				n++
			}
			if n > 0 && d.state == afterToken {
				d.state = inToken
				emit([]byte(masked))
			}
			if data = data[n:]; len(data) > 0 {
				d.state = inText
			}
		case inValue:
			n := 0
			for n < len(data) && data[n] != '&' && data[n] > ' ' && data[n] != 0x7f {
				n++
			}
			if data = data[n:]; len(data) > 0 {
				d.state = inText
			}
		case inText:
			data = d.text(t, data, emit)
		}
	}
}

// text passes text on up to a key, and returns what follows.
func (d *redactor) text(t *tokenSet, data []byte, emit func([]byte)) []byte {
	n := 0
	if len(d.held) == 0 {
		if n = t.skip(data); n > 0 {
			emit(data[:n])
		}
		if n == len(data) {
			return nil
		}
	}
	d.held = append(d.held, data[n])
	data = data[n+1:]
	begun, whole := t.find(d.held)
	switch {
	case whole != nil:
		emit(d.held)
		d.held, d.state = d.held[:0], afterToken
		if whole.parameter {
			emit([]byte(masked))
			d.state = inValue
		}
	case !begun: // the first byte begins no key; one may begin after it
		rest := bytes.Clone(d.held[1:])
		emit(d.held[:1])
		d.held = d.held[:0]
		d.write(t, rest, emit)
	}
	return data
}

// flush passes on what was held back, at the end of a stream.
func (d *redactor) flush(emit func([]byte)) {
	if len(d.held) > 0 {
		emit(d.held)
	}
	d.held, d.state = d.held[:0], inText
}

// isToken reports the bytes that tokens are made of.
func isToken(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c == '.' || c == '_' || c == '=' || c == '-'
}
