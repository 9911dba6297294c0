package ui

import "strings"

// style is a named look of text. Colour is never the only signal: a symbol or a word always says the same.
type style string

// The styles, as parameters of SGR.
const (
	styleGood  style = "32"
	styleBad   style = "31"
	styleWarn  style = "33"
	styleInfo  style = "36"
	styleFaint style = "2"
	styleBold  style = "1"
	styleError style = "1;31"
)

// look is how we write: with which symbols, and whether in colour.
type look struct {
	color                        bool
	ok, bad, skip, start, dots   string
	barFull, barEmpty, separator string
	spinner                      []string
}

func newLook(o Options) look {
	if o.ASCII {
		return look{
			color: o.Color, ok: "+", bad: "x", skip: "-", start: ">", dots: "...",
			barFull: "#", barEmpty: "-", separator: " | ", spinner: []string{"|", "/", "-", "\\"},
		}
	}
	return look{
		color: o.Color, ok: "✓", bad: "✗", skip: "–", start: "▸", dots: "…",
		barFull: "█", barEmpty: "░", separator: " | ",
		spinner: []string{"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"},
	}
}

// paint gives text a style.
func (l look) paint(s style, text string) string {
	if !l.color || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}

// paintDiagnostic colours a rendered diagnostic line by line.
func (l look) paintDiagnostic(text string) string {
	if !l.color {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		body := strings.TrimSuffix(line, "\n")
		word, rest, _ := strings.Cut(body, ": ")
		trimmed := strings.TrimLeft(body, " |\t")
		switch {
		case word == "error":
			b.WriteString(l.paint(styleError, "error:") + " " + l.paint(styleBold, rest))
		case word == "warning":
			b.WriteString(l.paint(styleWarn, "warning:") + " " + l.paint(styleBold, rest))
		case word == "hint":
			b.WriteString(l.paint(styleInfo, "hint:") + " " + rest)
		case strings.HasPrefix(trimmed, "-->"):
			b.WriteString(l.paint(styleFaint, body))
		case trimmed != "" && strings.Trim(trimmed, "^") == "":
			b.WriteString(l.paint(styleBad, body))
		default:
			b.WriteString(body)
		}
		b.WriteString("\n")
	}
	return b.String()
}
