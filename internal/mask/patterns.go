package mask

import "strings"

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
