package markdown

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// maxOpen is how many delimiters of emphasis wait for their other half; the oldest become text. A longer run is text as well.
	maxOpen = 64
	// maxBackticks is how many of them a code span can begin with.
	maxBackticks = 32
)

// spans renders the text of one block.
type spans struct {
	text   string
	pos    int
	depth  int
	pieces []piece
	open   []int       // pieces that may begin emphasis
	links  map[int]int // where the text of a link begins and ends, both at the brackets
	// noCode are the numbers of backticks that do not occur further on.
	noCode map[int]bool
	// comments is where the last comment of HTML ends.
	comments int
}

// piece is a part of the result: HTML, or delimiters of emphasis and the tags that some of them have become.
type piece struct {
	html  string
	end   string // tags that end here, before what is left of the delimiters
	mark  byte   // the delimiter, 0 for HTML
	count int    // of delimiters that are left
	begin string // tags that begin here
	opens bool
	run   int  // how many delimiters there were
	both  bool // it could begin and end emphasis
}

// inline renders the text of a block.
func inline(text string, depth int) string {
	s := &spans{text: text, depth: depth, noCode: map[int]bool{}, comments: strings.LastIndex(text, "-->")}
	s.findLinks()
	for s.pos < len(text) {
		s.next()
	}
	var b strings.Builder
	for _, p := range s.pieces {
		b.WriteString(p.html + p.end + strings.Repeat(string(p.mark), p.count) + p.begin)
	}
	return b.String()
}

// findLinks finds the brackets that stand around the texts of links, in one go.
func (s *spans) findLinks() {
	s.links = map[int]int{}
	if !strings.Contains(s.text, "](") || s.depth >= maxNesting {
		return
	}
	var open []int
	for i := 0; i < len(s.text); i++ {
		switch s.text[i] {
		case '\\':
			i++
		case '`':
			i = s.codeEnd(i) - 1
		case '[':
			open = append(open, i)
		case ']':
			if n := len(open); n > 0 {
				if strings.HasPrefix(s.text[i+1:], "(") {
					s.links[open[n-1]] = i
				}
				open = open[:n-1]
			}
		}
	}
	clear(s.noCode)
}

// codeEnd returns where the code span that begins at i ends; where there is none, the end of its backticks.
func (s *spans) codeEnd(i int) int {
	run := len(s.text[i:]) - len(strings.TrimLeft(s.text[i:], "`"))
	after := i + run
	if run > maxBackticks || s.noCode[run] {
		return after
	}
	for at := after; ; {
		next := strings.IndexByte(s.text[at:], '`')
		if next < 0 {
			s.noCode[run] = true
			return after
		}
		at += next
		n := len(s.text[at:]) - len(strings.TrimLeft(s.text[at:], "`"))
		at += n
		if n == run {
			return at
		}
	}
}

func (s *spans) add(html string) { s.pieces = append(s.pieces, piece{html: html}) }

// special are the characters that may mean something.
const special = "\\`*_~[!<&:hHwW\n"

// next renders what is at the position and goes behind it.
func (s *spans) next() {
	rest := s.text[s.pos:]
	size := 0
	switch c := rest[0]; c {
	case '\\':
		size = s.escaped(rest)
	case '`':
		size = s.code()
	case '*', '_', '~':
		size = s.delimiters(rest)
	case '[':
		size = s.link(s.pos, false)
	case '!':
		if strings.HasPrefix(rest, "![") {
			size = s.link(s.pos+1, true)
		}
	case '<':
		size = s.angle(rest)
	case '&':
		if size = entityLength(rest); size > 0 {
			s.add(rest[:size])
		}
	case ':':
		size = s.emoji(rest)
	case 'h', 'H', 'w', 'W':
		size = s.bareURL(rest)
	case '\n':
		if n := len(s.pieces); n > 0 && strings.HasSuffix(s.pieces[n-1].html, "  ") {
			s.pieces[n-1].html = strings.TrimRight(s.pieces[n-1].html, " ") + "<br>"
		}
	}
	if size == 0 {
		size = 1
		if n := strings.IndexAny(rest[1:], special); n > 0 {
			size += n
		} else if n < 0 {
			size = len(rest)
		}
		s.add(escape(rest[:size]))
	}
	s.pos += size
}

// escaped renders a character behind a backslash.
func (s *spans) escaped(rest string) int {
	switch {
	case len(rest) > 1 && rest[1] == '\n':
		s.add("<br>\n")
	case len(rest) > 1 && rest[1] < utf8.RuneSelf && (unicode.IsPunct(rune(rest[1])) || unicode.IsSymbol(rune(rest[1]))):
		s.add(escape(rest[1:2]))
	default:
		return 0
	}
	return 2
}

func (s *spans) code() int {
	end := s.codeEnd(s.pos)
	all := s.text[s.pos:end]
	text := strings.Trim(all, "`")
	if text == "" { // no end
		s.add(escape(all))
		return len(all)
	}
	text = strings.ReplaceAll(text, "\n", " ")
	if len(text) > 2 && text[0] == ' ' && text[len(text)-1] == ' ' && strings.TrimSpace(text) != "" {
		text = text[1 : len(text)-1]
	}
	s.add("<code>" + escape(text) + "</code>")
	return len(all)
}

// delimiters reads a run of "*", "_" or "~": it ends emphasis that is open, and may begin some.
func (s *spans) delimiters(rest string) int {
	mark := rest[0]
	count := len(rest) - len(strings.TrimLeft(rest, rest[:1]))
	before, after := lastRune(s.text[:s.pos]), firstRune(rest[count:])
	left := !unicode.IsSpace(after) && (!isPunctuation(after) || unicode.IsSpace(before) || isPunctuation(before))
	right := !unicode.IsSpace(before) && (!isPunctuation(before) || unicode.IsSpace(after) || isPunctuation(after))
	p := piece{mark: mark, count: count, opens: left, run: count}
	closes := right
	switch {
	case mark == '_' && count <= maxOpen:
		p.opens, closes = left && (!right || isPunctuation(before)), right && (!left || isPunctuation(after))
	case mark == '~' && count > 2 || count > maxOpen:
		p.opens, closes = false, false
	}
	if p.both = p.opens && closes; closes {
		s.closeWith(&p)
	}
	s.pieces = append(s.pieces, p)
	if p.opens && p.count > 0 {
		s.open = append(s.open, len(s.pieces)-1)
		if len(s.open) > maxOpen {
			s.open = s.open[1:]
		}
	}
	return count
}

// closeWith uses up the delimiters of p for emphasis that is open.
func (s *spans) closeWith(p *piece) {
	for i := len(s.open) - 1; i >= 0 && p.count > 0; i-- {
		opener := &s.pieces[s.open[i]]
		if opener.mark != p.mark || p.mark == '~' && opener.count != p.count {
			continue
		}
		if (opener.both || p.both) && (opener.run+p.run)%3 == 0 && p.run%3 != 0 { // "*a**b*": GitHub's rule of three
			continue
		}
		for opener.count > 0 && p.count > 0 {
			tag, used := "em", 1
			switch {
			case p.mark == '~':
				tag, used = "del", p.count
			case opener.count > 1 && p.count > 1:
				tag, used = "strong", 2
			}
			opener.begin, p.end = "<"+tag+">"+opener.begin, p.end+"</"+tag+">"
			opener.count, p.count = opener.count-used, p.count-used
		}
		s.open = s.open[:i+1] // what was opened in between is text
		if opener.count == 0 {
			s.open = s.open[:i]
		}
	}
}

func isPunctuation(c rune) bool { return unicode.IsPunct(c) || unicode.IsSymbol(c) }

// emojis are the short names that summaries are full of.
var emojis = map[string]string{
	"white_check_mark": "✅", "heavy_check_mark": "✔️", "ballot_box_with_check": "☑️", "x": "❌", "warning": "⚠️", "rotating_light": "🚨",
	"no_entry": "⛔", "rocket": "🚀", "tada": "🎉", "bug": "🐛", "package": "📦", "information_source": "ℹ️", "bulb": "💡", "memo": "📝",
	"boom": "💥", "fire": "🔥", "sparkles": "✨", "construction": "🚧", "hourglass": "⌛", "stopwatch": "⏱️", "green_circle": "🟢",
	"red_circle": "🔴", "yellow_circle": "🟡", "large_blue_circle": "🔵", "white_circle": "⚪", "eyes": "👀", "lock": "🔒", "key": "🔑",
	"mag": "🔍", "link": "🔗", "chart_with_upwards_trend": "📈", "bar_chart": "📊", "arrow_up": "⬆️", "arrow_down": "⬇️", "fast_forward": "⏩",
	"wrench": "🔧", "gear": "⚙️", "thumbsup": "👍", "+1": "👍", "thumbsdown": "👎", "-1": "👎", "test_tube": "🧪", "broom": "🧹",
}

// emoji renders :name: where it is known.
func (s *spans) emoji(rest string) int {
	const longest = 32
	end := strings.IndexByte(rest[1:min(len(rest), longest)], ':')
	if end < 0 || emojis[rest[1:1+end]] == "" {
		return 0
	}
	s.add(emojis[rest[1:1+end]])
	return end + 2
}

// link renders [text](target "title"), or as a link the image ![text](target). at is the place of the bracket.
func (s *spans) link(at int, image bool) int {
	end, ok := s.links[at]
	if !ok {
		return 0
	}
	target, size := linkTarget(s.text[end+1:])
	if size == 0 {
		return 0
	}
	text := s.text[at+1 : end]
	switch {
	case image:
		s.add(imageOf(target, text, ""))
	case webAddress(target) == "":
		s.add(inline(text, s.depth+1))
	default:
		s.add(anchor(target, inline(text, s.depth+1)))
	}
	return end + 1 + size - s.pos
}

// linkTarget reads (target "title") and returns its length, 0 when it is none.
func linkTarget(text string) (target string, size int) {
	const deepest = 32
	depth := 0
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\':
			i++
		case c == '(' && depth == deepest:
			return "", 0
		case c == '(':
			depth++
		case c == ')' && depth > 0:
			depth--
		case c == ')':
			target, _, _ = strings.Cut(strings.TrimSpace(text[1:i]), " ")
			return strings.Trim(target, "<>"), i + 1
		case c == '\n' || c == '"' && depth == 0:
			end := strings.IndexByte(text[i+1:], c)
			if c == '\n' || end < 0 {
				return "", 0
			}
			i += 1 + end
		}
	}
	return "", 0
}

// angle renders <https://address>, HTML that is allowed, and anything else as text.
func (s *spans) angle(rest string) int {
	if webAddress(rest[1:min(len(rest), 10)]) != "" {
		if end := strings.IndexAny(rest, "> \n"); end > 0 && rest[end] == '>' {
			s.add(anchor(rest[1:end], escape(rest[1:end])))
			return end + 1
		}
	}
	html, size := tag(rest, s.pos < s.comments)
	if size > 0 {
		s.add(html)
	}
	return size
}

// bareURL renders an address that is in the text.
func (s *spans) bareURL(rest string) int {
	before := lastRune(s.text[:s.pos])
	if unicode.IsLetter(before) || unicode.IsDigit(before) || before == '_' {
		return 0
	}
	target := rest
	if strings.HasPrefix(strings.ToLower(rest[:min(len(rest), 4)]), "www.") {
		target = "https://" + rest
	} else if webAddress(rest[:min(len(rest), 9)]) == "" {
		return 0
	}
	end := strings.IndexFunc(rest, func(c rune) bool { return unicode.IsSpace(c) || strings.ContainsRune("<>`|\"", c) })
	if end < 0 {
		end = len(rest)
	}
	for unopened := strings.Count(rest[:end], ")") - strings.Count(rest[:end], "("); end > 0; end-- {
		if last := rest[end-1]; last == ')' && unopened > 0 {
			unopened--
		} else if strings.IndexByte("?!.,:;*_~'", last) < 0 {
			break
		}
	}
	target = target[:len(target)-len(rest)+end]
	if webAddress(target) == "" {
		return 0
	}
	s.add(anchor(target, escape(rest[:end])))
	return end
}

// webAddress returns the target of a link if it is one of http or https, else "".
func webAddress(target string) string {
	head := strings.ToLower(target[:min(len(target), len("https://"))])
	if !strings.HasPrefix(head, "http://") && head != "https://" || len(target) <= len("https://") ||
		strings.ContainsFunc(target, func(c rune) bool { return c <= ' ' || c == 0x7f }) {
		return ""
	}
	return target
}

// anchor is a link around HTML.
func anchor(target, content string) string {
	return `<a href="` + attribute(target) + `" rel="noopener noreferrer nofollow" target="_blank">` + content + "</a>"
}

// pictures are the beginnings of images that are part of the text.
var pictures = []string{"data:image/png;base64,", "data:image/jpeg;base64,", "data:image/gif;base64,", "data:image/webp;base64,", "data:image/svg+xml;base64,"}

// imageOf shows an image that is part of the text, and a link to any other. size is attributes that are HTML already.
func imageOf(target, text, size string) string {
	if slices.ContainsFunc(pictures, func(p string) bool { return strings.HasPrefix(target, p) }) {
		return `<img src="` + attribute(target) + `" alt="` + attribute(text) + `"` + size + ">"
	}
	if text == "" {
		text = "image"
	}
	if webAddress(target) == "" {
		return escape(text)
	}
	return anchor(target, escape(text))
}

// attribute makes the value of an attribute of text that may hold entities.
func attribute(text string) string {
	var b strings.Builder
	for {
		at := strings.IndexByte(text, '&')
		if at < 0 {
			return b.String() + escape(text)
		}
		n := entityLength(text[at:])
		b.WriteString(escape(text[:at]))
		if b.WriteString(text[at : at+n]); n == 0 {
			b.WriteString("&amp;")
			n = 1
		}
		text = text[at+n:]
	}
}

// entityLength returns how long the entity is that the text begins with, such as "&amp;" or "&#x2713;"; 0 when there is none.
func entityLength(text string) int {
	const longest = 34
	end := strings.IndexByte(text[:min(len(text), longest)], ';')
	if end < 2 || text[0] != '&' {
		return 0
	}
	body := text[1:end]
	if digits, ok := strings.CutPrefix(body, "#"); ok {
		set := "0123456789"
		if digits != "" && (digits[0] == 'x' || digits[0] == 'X') {
			digits, set = digits[1:], set+"abcdefABCDEF"
		}
		if digits == "" || len(digits) > 7 || strings.Trim(digits, set) != "" {
			return 0
		}
		return end + 1
	}
	for i, c := range body {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (i == 0 || c < '0' || c > '9') {
			return 0
		}
	}
	return end + 1
}
