package markdown

import "strings"

// tags are the HTML that passes, each with the attributes that it may have. Void ones have no end.
var tags = map[string]string{
	"a": "href", "b": "", "blockquote": "", "br": "", "code": "", "dd": "", "del": "", "details": "open", "div": "align", "dl": "", "dt": "",
	"em": "", "h1": "align", "h2": "align", "h3": "align", "h4": "align", "h5": "align", "h6": "align", "hr": "", "i": "",
	"img": "src alt width height", "ins": "", "kbd": "", "li": "", "mark": "", "ol": "start", "p": "align", "pre": "", "s": "", "samp": "",
	"small": "", "span": "", "strike": "", "strong": "", "sub": "", "summary": "", "sup": "", "table": "", "tbody": "",
	"td": "align colspan rowspan", "tfoot": "", "th": "align colspan rowspan", "thead": "", "tr": "", "tt": "", "ul": "", "var": "",
	"input": "", // of tasks; the text cannot bring its own
}

// blockTags begin a block of HTML, which a blank line ends.
const blockTags = " blockquote dd details div dl dt h1 h2 h3 h4 h5 h6 hr li ol p pre summary table tbody td tfoot th thead tr ul "

func isVoid(name string) bool {
	return name == "br" || name == "hr" || name == "img" || name == "input"
}

// tag reads the tag or comment that the text begins with. It returns what is allowed of it as HTML, and its length; 0 when it is
// text. commentEnds says that a comment ends somewhere behind it.
func tag(text string, commentEnds bool) (html string, size int) {
	if commentEnds && strings.HasPrefix(text, "<!--") {
		return "", strings.Index(text, "-->") + len("-->")
	}
	rest, closing := text[1:], false
	if strings.HasPrefix(rest, "/") {
		rest, closing = rest[1:], true
	}
	name := strings.ToLower(rest[:len(rest)-len(strings.TrimLeft(rest, letters+"123456"))])
	allowed, ok := tags[name]
	if !ok || name == "input" {
		return "", 0
	}
	values, left, ok := attributes(rest[len(name):])
	if !ok {
		return "", 0
	}
	size = len(text) - len(rest) + len(name) + left
	switch {
	case closing && isVoid(name):
		return "", size
	case closing:
		return "</" + name + ">", size
	case name == "img":
		return imageOf(values["src"], values["alt"], numbers(values, "width", "height")), size
	case name == "a" && webAddress(values["href"]) != "":
		return strings.TrimSuffix(anchor(values["href"], ""), "</a>"), size
	}
	html = "<" + name
	for attr := range strings.FieldsSeq(allowed) {
		switch value := strings.ToLower(values[attr]); attr {
		case "align":
			if value == "left" || value == "center" || value == "right" {
				html += ` align="` + value + `"`
			}
		case "open":
			if _, there := values[attr]; there {
				html += " open"
			}
		case "colspan", "rowspan", "start":
			html += numbers(values, attr)
		}
	}
	return html + ">", size
}

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// numbers returns the attributes that are numbers of at most four digits.
func numbers(values map[string]string, names ...string) string {
	html := ""
	for _, name := range names {
		if n := strings.TrimSuffix(values[name], "px"); n != "" && len(n) <= 4 && strings.Trim(n, "0123456789") == "" {
			html += " " + name + `="` + n + `"`
		}
	}
	return html
}

// attributes reads the attributes of a tag up to behind its end, the first of each name. It returns false when there is no end.
func attributes(text string) (values map[string]string, size int, ok bool) {
	values = map[string]string{}
	for rest := text; ; {
		rest = strings.TrimLeft(rest, " \t\n/")
		if strings.HasPrefix(rest, ">") {
			return values, len(text) - len(rest) + 1, true
		}
		name := rest[:len(rest)-len(strings.TrimLeft(rest, letters+"0123456789-_:@."))]
		if name == "" {
			return nil, 0, false
		}
		value := ""
		after := strings.TrimLeft(rest[len(name):], " \t\n")
		rest = rest[len(name):]
		if assigned, is := strings.CutPrefix(after, "="); is {
			assigned = strings.TrimLeft(assigned, " \t\n")
			if value, rest, ok = attributeValue(assigned); !ok {
				return nil, 0, false
			}
		}
		if _, twice := values[strings.ToLower(name)]; !twice {
			values[strings.ToLower(name)] = value
		}
	}
}

// attributeValue reads a value with or without quotes, and returns what follows it.
func attributeValue(text string) (value, rest string, ok bool) {
	if text == "" {
		return "", "", false
	}
	if quote := text[0]; quote == '"' || quote == '\'' {
		end := strings.IndexByte(text[1:], quote)
		if end < 0 {
			return "", "", false
		}
		return text[1 : 1+end], text[2+end:], true
	}
	end := strings.IndexAny(text, " \t\n>\"'<=`")
	if end <= 0 {
		return "", "", false
	}
	return text[:end], text[end:], true
}

// startsHTML reports whether a line begins a block of HTML.
func startsHTML(line string) bool {
	text := strings.TrimLeft(line, " ")
	if !strings.HasPrefix(text, "<") || indentOf(line) >= tabWidth {
		return false
	}
	if strings.HasPrefix(text, "<!--") {
		return true
	}
	rest := strings.TrimPrefix(text[1:], "/")
	name := rest[:len(rest)-len(strings.TrimLeft(rest, letters+"123456"))]
	return name != "" && strings.Contains(blockTags, " "+strings.ToLower(name)+" ")
}

// html passes on a block of HTML: up to a blank line, or to the end of what is preformatted or a comment.
func (r *renderer) html(lines []string) int {
	end := ""
	switch text := strings.ToLower(strings.TrimLeft(lines[0], " ")); {
	case strings.HasPrefix(text, "<!--"):
		end = "-->"
	case strings.HasPrefix(text, "<pre"):
		end = "</pre>"
	}
	n := 0
	for ; n < len(lines); n++ {
		if end == "" && lines[n] == "" {
			break
		}
		if end != "" && strings.Contains(strings.ToLower(lines[n]), end) {
			n++
			break
		}
	}
	rest := strings.Join(lines[:n], "\n")
	for unended := len(rest) - strings.LastIndex(rest, "-->"); rest != ""; {
		at := strings.IndexAny(rest, "<&")
		if at < 0 {
			at = len(rest)
		}
		r.out.WriteString(escape(rest[:at]))
		if rest = rest[at:]; rest == "" {
			break
		}
		passed, size := "", 0
		if rest[0] == '<' {
			passed, size = tag(rest, len(rest) > unended)
		} else if size = entityLength(rest); size > 0 {
			passed = rest[:size]
		}
		if size == 0 {
			passed, size = escape(rest[:1]), 1
		}
		r.out.WriteString(passed)
		rest = rest[size:]
	}
	r.out.WriteString("\n")
	return n
}

// maxOpenTags is how deep tags are in each other; those that are deeper are left out.
const maxOpenTags = 100

// balance gives every tag that is open an end, and drops ends without a beginning. The HTML is that of this package: every "<" in it is a tag,
// and attributes hold no ">".
func balance(html string) string {
	var b strings.Builder
	var open []string
	count, left := map[string]int{}, map[string]int{} // how often a tag is open, and how often it was left out
	for html != "" {
		at := strings.IndexByte(html, '<')
		if at < 0 {
			break
		}
		end := at + strings.IndexByte(html[at:], '>') + 1
		whole := html[at:end]
		b.WriteString(html[:at])
		html = html[end:]
		name := strings.Trim(whole, "</>")
		name, _, _ = strings.Cut(name, " ")
		switch {
		case isVoid(name):
			b.WriteString(whole)
		case whole[1] != '/' && (len(open) == maxOpenTags || name == "a" && count["a"] > 0):
			left[name]++
		case whole[1] != '/':
			open = append(open, name)
			count[name]++
			b.WriteString(whole)
		case left[name] > 0:
			left[name]--
		case count[name] > 0:
			for last := ""; last != name; {
				last = open[len(open)-1]
				open = open[:len(open)-1]
				count[last]--
				b.WriteString("</" + last + ">")
			}
		}
	}
	b.WriteString(html)
	for i := len(open) - 1; i >= 0; i-- {
		b.WriteString("</" + open[i] + ">")
	}
	return b.String()
}
