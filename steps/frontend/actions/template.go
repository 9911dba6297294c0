package actions

import (
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/rungci/rung/steps/expr"
)

// names are what the expressions of an action can refer to.
type names struct {
	inputs map[string]string   // as declared, by their names in lower case
	steps  map[string]stepName // by their ids in lower case
	taken  map[string]bool     // names of steps in the plan
}

// mistake is what is wrong with a text: where, in characters, and what to do about it.
type mistake struct {
	offset, length int
	message, hint  string
}

func mistakeAt(source string, start, end int, message, hint string) *mistake {
	return &mistake{utf8.RuneCountInString(source[:start]), max(1, utf8.RuneCountInString(source[start:end])), message, hint}
}

const (
	opening = "${{"
	closing = "}}"
)

// template translates a text that may hold GitHub's expressions into a template of ours.
func (n *names) template(text string) (string, *mistake) {
	var b strings.Builder
	for pos := 0; ; {
		i := strings.Index(text[pos:], opening)
		if i < 0 {
			b.WriteString(text[pos:])
			break
		}
		open := pos + i
		if open > pos && text[open-1] == '\\' { // our templates have an escape there, GitHub's have not
			return "", mistakeAt(text, open-1, open+len(opening), `this version reads no \ before ${{`, "give the value in `env` instead")
		}
		p := &translation{names: n, source: text, pos: open + len(opening)}
		out := p.whole()
		if p.wrong == nil && !strings.HasPrefix(text[p.tok.start:], closing) {
			p.fail(open, open+len(opening), "the expression is not closed: }} is missing", "")
		}
		if p.wrong != nil {
			return "", p.wrong
		}
		b.WriteString(text[pos:open] + opening + " " + out + " " + closing)
		pos = p.tok.start + len(closing)
	}
	if _, err := expr.ParseTemplate(b.String()); err != nil {
		return "", untranslatable(text, err)
	}
	return b.String(), nil
}

// condition translates an `if`: an expression, with or without ${{ }} around it.
func (n *names) condition(text string) (string, *mistake) {
	p := &translation{names: n, source: text, status: true}
	end := ""
	if open := len(text) - len(strings.TrimLeft(text, " \t\r\n")); strings.HasPrefix(text[open:], opening) {
		p.pos, end = open+len(opening), closing
	}
	out := p.whole()
	if rest := text[p.tok.start:]; p.wrong == nil && strings.TrimSpace(rest) != end {
		p.fail(p.tok.start, len(text), "a condition is one expression", "write all of it without ${{ }}")
	}
	if p.wrong != nil {
		return "", p.wrong
	}
	if _, err := expr.ParseCondition(out); err != nil {
		return "", untranslatable(text, err)
	}
	return out, nil
}

// untranslatable is the mistake of a text whose translation our language does not take: one that is too long, or too deep.
func untranslatable(text string, err error) *mistake {
	hint := ""
	if e := (*expr.Error)(nil); errors.As(err, &e) {
		hint = e.Hint
	}
	return mistakeAt(text, 0, len(text), err.Error(), hint)
}
