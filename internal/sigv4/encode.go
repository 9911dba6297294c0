// Package sigv4 has what the signatures of version 4 of Amazon and Google have in common: how requests are written as they are signed. It signs
// addresses of Google's (GOOG4-RSA-SHA256), too.
package sigv4

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"slices"
	"strings"
)

// EncodePath writes a path as it is signed: every byte but letters, digits, "-._~" and slashes as %XX.
func EncodePath(text string) string { return encode(text, true) }

// encodeQuery is the same for a name or a value in a query, where slashes are encoded, too.
func encodeQuery(text string) string { return encode(text, false) }

func encode(text string, slash bool) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(text) {
		c := text[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '.', c == '_', c == '~', c == '/' && slash:
			b.WriteByte(c)
		default:
			b.WriteByte('%')
			b.WriteByte(digits[c>>4])
			b.WriteByte(digits[c&15])
		}
	}
	return b.String()
}

// Query writes a query as it is signed: in the order of its encoded names, then values.
func Query(query url.Values) string {
	var pairs []string
	for name, values := range query {
		for _, v := range values {
			pairs = append(pairs, encodeQuery(name)+"="+encodeQuery(v))
		}
	}
	slices.Sort(pairs)
	return strings.Join(pairs, "&")
}

// Headers writes headers as they are signed, a line each, and their names. Values are trimmed, and runs of blanks in them
// are one.
func Headers(headers map[string][]string) (lines, names string) {
	byName := map[string]string{}
	for name, values := range headers {
		trimmed := make([]string, len(values))
		for i, v := range values {
			trimmed[i] = strings.Join(strings.Fields(v), " ")
		}
		byName[strings.ToLower(name)] = strings.Join(trimmed, ",")
	}
	var all []string
	for name := range byName {
		all = append(all, name)
	}
	slices.Sort(all)
	var b strings.Builder
	for _, name := range all {
		b.WriteString(name + ":" + byName[name] + "\n")
	}
	return b.String(), strings.Join(all, ";")
}

// HexSHA256 returns the digest of a text, in hexadecimal.
func HexSHA256(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
