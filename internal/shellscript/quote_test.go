package shellscript

import (
	"strings"
	"testing"

	"github.com/rungci/rung/internal/mask/masktest"
)

func TestQuote(t *testing.T) {
	for _, c := range []struct {
		dialect    Dialect
		text, want string
	}{
		{Sh, "a b", "'a b'"},
		{Sh, "it's", `'it'\''s'`},
		{Bash, "a\nb", "'a\nb'"},
		{Pwsh, "5", "'5'"},
		{Pwsh, "it's ‘so’", "'it''s ‘‘so’’'"},
		{Powershell, "$a `n", "'$a `n'"},
	} {
		if got := Quote(c.text, c.dialect); got != c.want {
			t.Errorf("%s: %q became %s, want %s", c.dialect, c.text, got, c.want)
		}
	}
}

func TestEchoCmd(t *testing.T) {
	for text, want := range map[string]string{
		"go test ./...":              "go test ./...",
		`a & b | c > d < e (f) "g"!`: `a ^& b ^| c ^> d ^< e ^(f^) ^"g^"^!`,
		"%PATH% ^":                   "%%PATH%% ^^",
		"a\r\ndel x\x1a":             "a  del x ",
		strings.Repeat("ä", 2001):    strings.Repeat("ä", 2000) + "…",
	} {
		if got := EchoCmd(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

// FuzzQuoteCmd checks that no character that means something to cmd is without its escape.
func FuzzQuoteCmd(f *testing.F) {
	for _, text := range hostile {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := EchoCmd(text)
		if strings.ContainsAny(got, "\r\n\x1a") {
			t.Fatalf("%q became %q, which has more than one line", text, got)
		}
		for rest := got; rest != ""; {
			switch {
			case rest[0] == '^' && len(rest) > 1:
				rest = rest[2:]
			case strings.HasPrefix(rest, "%%"):
				rest = rest[2:]
			case strings.ContainsRune(`^&|<>()"!%`, rune(rest[0])):
				t.Fatalf("%q became %q, where %q means something", text, got, rest[:1])
			default:
				rest = rest[1:]
			}
		}
	})
}

func TestEchoShowsNoPartOfASecret(t *testing.T) { masktest.Shortens(t, maxEcho, EchoCmd) }
