package shellscript

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/rungci/rung/internal/lazyregexp"
)

// posix finds the slots in the tree of a script for bash or sh.
type posix struct {
	*source
	variant syntax.LangVariant
	facts   facts
	stack   []syntax.Node
	found   []bool
	slots   []slot
	edits   []edit
	err     error
}

// variants are tried in turn. Bash comes first for sh as well: it has the most places where a value is evaluated, and the
// shell that runs the script may be one that has them.
var variants = []syntax.LangVariant{syntax.LangBash, syntax.LangPOSIX, syntax.LangMirBSDKorn}

func parsePosix(src *source) (*Script, error) {
	file, variant, err := parseText(src.text)
	if _, open := openHeredoc(err); open {
		src.text = ended(src.text)
		file, variant, err = parseText(src.text)
	}
	if err != nil {
		return nil, src.syntaxError(err)
	}
	p := &posix{source: src, variant: variant, facts: gather(file), found: make([]bool, len(src.slots)), slots: make([]slot, len(src.slots))}
	for i, part := range src.slots {
		p.slots[i].part = part
	}
	syntax.Walk(file, p.visit)
	if p.err != nil {
		return nil, p.err
	}
	for i, found := range p.found {
		if !found {
			return nil, p.misplaced(i)
		}
	}
	slices.SortFunc(p.edits, func(a, b edit) int { return a.start - b.start })
	text := apply(src.text, p.edits)
	if len(p.edits) > 0 {
		if err := src.verify(text, variant, p.slots); err != nil {
			return nil, err
		}
	}
	return &Script{text: text, slots: p.slots}, nil
}

// parseText returns the tree for the first variant that parses, else the error for bash.
func parseText(text string) (*syntax.File, syntax.LangVariant, error) {
	var first error
	for _, variant := range variants {
		file, err := syntax.NewParser(syntax.Variant(variant), syntax.KeepComments(true)).Parse(strings.NewReader(text), "")
		if err == nil {
			return file, variant, nil
		}
		if first == nil {
			first = err
		}
	}
	return nil, 0, first
}

const placesHint = "an expression can be used where a variable like $NAME can: as a word, part of a word, or in quotes"

func (s *source) syntaxError(err error) *Error {
	var parse syntax.ParseError
	var lang syntax.LangError
	switch {
	case errors.As(err, &parse):
		return s.errorAt(int(parse.Pos.Offset()), "the script does not parse as shell text: "+s.plain(parse.Text), placesHint)
	case errors.As(err, &lang):
		return s.errorAt(int(lang.Pos.Offset()), "the script does not parse as shell text: "+s.plain(lang.Feature)+" cannot be used here", placesHint)
	default:
		return &Error{Message: "the script does not parse as shell text: " + s.plain(err.Error()), Hint: placesHint}
	}
}

// verify makes sure that, after the changes of quotes, every slot is a reference to its variable and nothing else.
func (s *source) verify(text string, variant syntax.LangVariant, slots []slot) error {
	file, err := syntax.NewParser(syntax.Variant(variant)).Parse(strings.NewReader(text), "")
	if err != nil {
		return &Error{Message: "the quotes around an expression cannot be changed so that its value is kept apart from the script (" + s.plain(err.Error()) + ")", Hint: "put the expression in double quotes"}
	}
	referenced := make([]bool, len(slots))
	for node := range syntax.Preorder(file) {
		if exp, ok := node.(*syntax.ParamExp); ok {
			if i, ok := s.slotOf(exp); ok {
				referenced[i] = true
			}
		}
		if glob, ok := node.(*syntax.ExtGlob); ok {
			for i := range slots {
				referenced[i] = referenced[i] || strings.Contains(glob.Pattern.Value, s.reference(i))
			}
		}
	}
	for i, ok := range referenced {
		if !ok && slots[i].needs != commentOnly {
			return s.slotError(i, "the quotes around this expression cannot be changed so that its value is kept apart from the script", "put the expression in double quotes")
		}
	}
	return nil
}

// slotOf returns the slot that a parameter expansion stands for.
func (s *source) slotOf(exp *syntax.ParamExp) (int, bool) {
	if exp.Param == nil || !strings.HasPrefix(exp.Param.Value, s.variable) {
		return 0, false
	}
	i, err := strconv.Atoi(exp.Param.Value[len(s.variable):])
	return i, err == nil && i < len(s.slots)
}

func (p *posix) visit(node syntax.Node) bool {
	if node == nil {
		p.stack = p.stack[:len(p.stack)-1]
		return true
	}
	p.stack = append(p.stack, node)
	switch n := node.(type) {
	case *syntax.ParamExp:
		if i, ok := p.slotOf(n); ok {
			if start, end := p.span(i); int(n.Pos().Offset()) == start && int(n.End().Offset()) == end {
				p.place(i)
			}
		}
	case *syntax.SglQuoted:
		p.visitQuoted(n)
	case *syntax.Redirect:
		p.visitHeredoc(n)
	case *syntax.ExtGlob:
		if !strings.ContainsAny(n.Pattern.Value, "'\"\\`") {
			p.placeWithin(n.Pattern)
		}
	case *syntax.Comment:
		for _, i := range p.within(offsets(n)) {
			p.found[i], p.slots[i].needs = true, commentOnly
		}
	case *syntax.Word:
		p.checkBraces(n)
	case *syntax.CallExpr:
		p.checkAssignment(n)
	}
	return true
}

func offsets(n syntax.Node) (start, end int) { return int(n.Pos().Offset()), int(n.End().Offset()) }

// place notes that a slot is at the top of the stack.
func (p *posix) place(i int) {
	p.found[i] = true
	needs, err := p.need()
	if p.variant != syntax.LangBash && p.looksLikeBash() {
		needs = number
	}
	p.slots[i].needs = needs
	if err != "" {
		p.fail(i, err, placesHint)
	}
}

// bashArithmetic begins a word in which bash evaluates what a plain sh does not.
var bashArithmetic = lazyregexp.New(`\$\[|^[A-Za-z_][A-Za-z0-9_]*\[`)

// looksLikeBash reports whether the top of the stack is in what bash would take for arithmetic, in a script that only
// parses as plain sh. Bash runs such a script as well, up to the line that it cannot read.
func (p *posix) looksLikeBash() bool {
	for _, node := range p.stack {
		switch n := node.(type) {
		case *syntax.Subshell:
			start, _ := offsets(n)
			if strings.HasPrefix(p.text[start:], "((") {
				return true
			}
		case *syntax.Word:
			if text, _ := p.skeleton(n); bashArithmetic.MatchString(text) {
				return true
			}
		}
	}
	return false
}

func (p *posix) placeWithin(n syntax.Node) []int {
	slots := p.within(offsets(n))
	for _, i := range slots {
		p.place(i)
	}
	return slots
}

func (p *posix) fail(i int, message, hint string) {
	if p.err == nil {
		p.err = p.slotError(i, message, hint)
	}
}

// visitQuoted leaves single quotes around a slot: 'a${{ x }}b' becomes 'a'"${x}"'b'.
func (p *posix) visitQuoted(n *syntax.SglQuoted) {
	slots := p.placeWithin(n)
	open := "'"
	if n.Dollar {
		open = "$'"
	}
	for _, i := range slots {
		if p.literalQuotes() {
			p.fail(i, "an expression cannot be in single quotes inside ${…} inside double quotes, which shells read in different ways", "leave out the single quotes")
			return
		}
		start, end := p.span(i)
		if n.Dollar && backslashes(p.text[:start])%2 == 1 {
			p.fail(i, "a backslash before an expression would change the first character of its value", "leave it out, or write two for one backslash")
			return
		}
		p.edits = append(p.edits, edit{start, end, `'"` + p.reference(i) + `"` + open})
	}
}

// literalQuotes reports whether single quotes at the top of the stack are in a word of ${…} inside double quotes.
func (p *posix) literalQuotes() bool {
	inParam := false
	for _, node := range slices.Backward(p.stack) {
		switch node.(type) {
		case *syntax.ParamExp:
			inParam = true
		case *syntax.DblQuoted:
			return inParam
		case *syntax.Stmt:
			return false
		case *syntax.Redirect:
			return inParam // the body of a here-document reads like double quotes
		}
	}
	return false
}

func backslashes(text string) int { return len(text) - len(strings.TrimRight(text, `\`)) }

// plainDelimiter is a delimiter that needs no quotes.
var plainDelimiter = lazyregexp.New(`^[A-Za-z0-9_.+:@%-]+$`)

var heredocEscapes = strings.NewReplacer(`\`, `\\`, `$`, `\$`, "`", "\\`")

// visitHeredoc makes a quoted here-document with slots an unquoted one whose text stays the same.
func (p *posix) visitHeredoc(n *syntax.Redirect) {
	if n.Hdoc == nil {
		return
	}
	delimiter, quoted := unquote(n.Word)
	start, end := offsets(n.Hdoc)
	slots := p.within(start, end)
	if !quoted || len(slots) == 0 {
		return
	}
	p.stack = append(p.stack, n.Hdoc)
	for _, i := range slots {
		p.place(i)
		for _, node := range p.stack {
			if sub, ok := node.(*syntax.CmdSubst); ok && sub.Backquotes {
				p.fail(i, "an expression cannot be in a quoted here-document inside backquotes", "write $(…) for the backquotes")
			}
		}
	}
	p.stack = p.stack[:len(p.stack)-1]
	if !plainDelimiter.MatchString(delimiter) {
		p.fail(slots[0], "the delimiter of the here-document around this expression cannot be written without quotes", "use a plain word such as EOF")
		return
	}
	wordStart, wordEnd := offsets(n.Word)
	p.edits = append(p.edits, edit{wordStart, wordEnd, delimiter})
	from := start
	for _, i := range slots {
		slotStart, slotEnd := p.span(i)
		p.edits = append(p.edits, edit{from, slotStart, heredocEscapes.Replace(p.text[from:slotStart])})
		from = slotEnd
	}
	p.edits = append(p.edits, edit{from, end, heredocEscapes.Replace(p.text[from:end])})
}

// unquote returns the text of a word without its quotes, and whether it had any.
func unquote(w *syntax.Word) (text string, quoted bool) {
	var b strings.Builder
	var add func(parts []syntax.WordPart)
	add = func(parts []syntax.WordPart) {
		for _, part := range parts {
			switch x := part.(type) {
			case *syntax.Lit:
				quoted = quoted || strings.Contains(x.Value, `\`)
				b.WriteString(strings.ReplaceAll(x.Value, `\`, ""))
			case *syntax.SglQuoted:
				quoted = true
				b.WriteString(x.Value)
			case *syntax.DblQuoted:
				quoted = true
				add(x.Parts)
			}
		}
	}
	add(w.Parts)
	return b.String(), quoted
}

// skeleton is the text of a word outside quotes, with one letter for each slot and another for all else.
const (
	skeletonSlot  = "\x01"
	skeletonOther = "\x02"
)

func (p *posix) skeleton(w *syntax.Word) (text string, first int) {
	var b strings.Builder
	first = -1
	for _, part := range w.Parts {
		switch x := part.(type) {
		case *syntax.Lit:
			b.WriteString(x.Value)
			continue
		case *syntax.ParamExp:
			if i, ok := p.slotOf(x); ok {
				b.WriteString(skeletonSlot)
				if first < 0 {
					first = i
				}
				continue
			}
		}
		b.WriteString(skeletonOther)
	}
	return b.String(), first
}

var (
	braceSequence  = lazyregexp.New(`\{[^{}]*(\x01[^{},]*\.\.|\.\.[^{},]*\x01)[^{}]*\}`)
	assignmentLeft = lazyregexp.New(`^[A-Za-z0-9_\x01]*\x01[A-Za-z0-9_\x01]*(\[.*\])?\+?=`)
)

// checkBraces finds {1..${{ n }}}, which shells expand before variables.
func (p *posix) checkBraces(w *syntax.Word) {
	if len(w.Parts) < 2 {
		return
	}
	if text, i := p.skeleton(w); i >= 0 && braceSequence.MatchString(text) {
		p.fail(i, "a sequence in braces like {1..3} cannot be made from an expression, as the shell expands it before variables", "use $(seq 1 ${{ … }}), or a for loop")
	}
}

// checkAssignment finds ${{ name }}=value, which a shell takes for the name of a command.
func (p *posix) checkAssignment(n *syntax.CallExpr) {
	if len(n.Args) == 0 {
		return
	}
	if text, i := p.skeleton(n.Args[0]); i >= 0 && assignmentLeft.MatchString(text) {
		p.fail(i, "the name of a variable that is assigned to cannot come from an expression", `use export "${{ … }}=value", or case to choose among the names`)
	}
}

// misplaced explains a slot that is not where a variable can be.
func (p *posix) misplaced(i int) *Error {
	start, _ := p.span(i)
	before := p.text[:start]
	switch {
	case backslashes(before)%2 == 1:
		return p.slotError(i, "a backslash before an expression would take away its meaning", "leave it out, or write two for one backslash")
	case strings.HasSuffix(before, "$"):
		return p.slotError(i, "a $ before an expression would make its value the name of a variable", "write the expression without it, or assign it to a variable NAME and use ${!NAME} (bash)")
	default:
		return p.slotError(i, "an expression cannot stand here", placesHint)
	}
}
