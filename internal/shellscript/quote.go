package shellscript

import "strings"

// Quote writes a text as one word that a shell of the dialect reads back as it is. In Cmd there is no such word: see EchoCmd.
func Quote(text string, d Dialect) string {
	switch d {
	case Pwsh, Powershell:
		return literalPowershell(text)
	default:
		return quoteSh(text)
	}
}

// maxEcho bounds what EchoCmd shows, in characters: a command of cmd has at most 8191, and each may need another one.
const maxEcho = 2000

// EchoCmd writes a text so that `echo` of cmd, in a batch file, shows it and runs nothing of it. Cmd has no quotes that hold
// everything, so every character that means something has an escape of its own. Line breaks and other control characters become
// spaces, and a very long text is cut.
func EchoCmd(text string) string {
	var b strings.Builder
	for i, r := range []rune(text) {
		switch {
		case i == maxEcho:
			b.WriteString("…")
			return b.String()
		case r < ' ' && r != '\x1b' || r == 0x7f:
			b.WriteByte(' ')
		case r == '%':
			b.WriteString("%%")
		case strings.ContainsRune(`^&|<>()"!`, r):
			b.WriteByte('^')
			b.WriteRune(r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
