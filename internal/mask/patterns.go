package mask

import (
	"slices"
	"strings"
)

// partSize is the size in bytes of the parts that long forms are cut in. The last part is up to twice as long.
const partSize = 64

// patterns returns what to look for to find the secret, which has no white space around it. Some may be repeated.
func patterns(secret string) []pattern {
	all := appendPatterns(nil, forms(secret))
	lines := strings.FieldsFunc(secret, func(r rune) bool { return r == lf || r == cr })
	if len(lines) < 2 {
		return all
	}
	for _, line := range lines {
		if line = strings.Trim(line, space); len(line) >= MinLength {
			all = appendPatterns(all, quotedForms(line))
		}
	}
	return all
}

// appendPatterns appends the patterns of forms as they appear in a view.
func appendPatterns(all []pattern, forms []string) []pattern {
	seen := make(map[string]bool, len(forms))
	for _, form := range forms {
		if form = withoutBreaks(form); seen[form] {
			continue
		}
		seen[form] = true
		if strings.IndexByte(form, esc) < 0 {
			all = appendParts(all, form)
			continue
		}
		// The text between two ESC is found wherever it begins, even if it reads like an escape sequence.
		for between := range strings.SplitSeq(form, string(rune(esc))) {
			all = appendParts(all, between)
		}
		var v view
		v.read([]byte(form), sequence{})
		all = appendParts(all, string(v.text))
	}
	return all
}

// sorted are the patterns of secrets in the order of their texts, without repetitions.
func sorted(secrets []string) []pattern {
	var all []pattern
	for _, secret := range secrets {
		all = append(all, patterns(secret)...)
	}
	slices.SortFunc(all, func(a, b pattern) int {
		if c := strings.Compare(a.text, b.text); c != 0 {
			return c
		}
		// The first of equals stays: a pattern that stands alone is more than the rest of another.
		switch {
		case a.rest == b.rest:
			return 0
		case b.rest:
			return -1
		}
		return 1
	})
	return slices.CompactFunc(all, func(a, b pattern) bool { return a.text == b.text })
}

// merge makes one sorted list of two.
func merge(a, b []pattern) []pattern {
	all := make([]pattern, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		switch c := strings.Compare(a[0].text, b[0].text); {
		case c < 0:
			all, a = append(all, a[0]), a[1:]
		case c > 0:
			all, b = append(all, b[0]), b[1:]
		case a[0].rest:
			a = a[1:]
		default:
			b = b[1:]
		}
	}
	return append(append(all, a...), b...)
}

// appendParts appends a text, in parts if it is long. A text that is too short is left out.
func appendParts(all []pattern, text string) []pattern {
	if len(text) < MinLength {
		return all
	}
	rest := false
	for len(text) >= 2*partSize {
		all = append(all, pattern{text[:partSize], rest})
		text, rest = text[partSize:], true
	}
	return append(all, pattern{text, rest})
}

// withoutBreaks returns the text without \r and \n.
func withoutBreaks(text string) string {
	if !strings.ContainsAny(text, "\r\n") {
		return text
	}
	return strings.NewReplacer("\r", "", "\n", "").Replace(text)
}
