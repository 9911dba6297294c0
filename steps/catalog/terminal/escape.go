package terminal

// EscapeHelp says how to detach.
const EscapeHelp = "~. at the beginning of a line detaches"

// escape finds what is meant for us in what is typed, as ssh does: at the beginning of a line, "~." detaches, and "~~" is one "~".
type escape struct {
	within bool // a line has begun
	tilde  bool // and does so with a "~" that is held back
}

// filter returns what is for the shell.
func (e *escape) filter(typed []byte) (out []byte, detach bool) {
	for _, b := range typed {
		if e.tilde {
			e.tilde = false
			if b == '.' {
				return out, true
			}
			if b != '~' {
				out = append(out, '~')
			}
		} else if b == '~' && !e.within {
			e.tilde, e.within = true, true
			continue
		}
		out = append(out, b)
		e.within = b != '\r' && b != '\n'
	}
	return out, false
}
