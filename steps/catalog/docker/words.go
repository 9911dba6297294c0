package docker

import "strings"

// words takes a text of arguments apart as GitHub's runner does for `with.args`: at blanks outside of double quotes, in which \" is a quote.
func words(text string) (list []string) {
	var word strings.Builder
	quoted, begun := false, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text) && text[i+1] == '"':
			i++
			begun = true
			word.WriteByte('"')
		case c == '"':
			quoted, begun = !quoted, true
		case !quoted && strings.IndexByte(" \t\r\n", c) >= 0:
			if begun {
				list = append(list, word.String())
			}
			word.Reset()
			begun = false
		default:
			begun = true
			word.WriteByte(c)
		}
	}
	if begun {
		list = append(list, word.String())
	}
	return list
}
