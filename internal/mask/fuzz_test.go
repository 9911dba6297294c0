package mask

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzWriter compares a Writer with the reference, for any secrets, any text and any writes. The secrets are separated by
// NUL; cuts says where to cut, as distances between cuts.
func FuzzWriter(f *testing.F) {
	f.Add("hunter2\x00secrets", "a hun\x1b[31mter2 ssecrets\r\n\x1b]0;hunter2\x07", []byte{1, 2, 3})
	f.Add("aaaa\x00aaab\x00aabaabaab", "aaaaabaabaabaabaaaaa", []byte{1})
	f.Add("abab\x00babababc", "abababababcabab\nababc", []byte{3, 1})
	f.Add("m;0m;0\x001mab", "\x1b[0m;0m;0m;0 \x1b[1mab\x1b[31\x1b[m", []byte{1})
	f.Add("one\ntwo two\nthree", "one\ntwo two\nthree one\\ntwo two\\nthree", []byte{5, 1, 1})
	f.Add("\x1b[1mbold\x1b[0mtext", "\x1b[1mbold\x1b[0mtext\x1b[1mboldtext", []byte{1})
	f.Add(strings.Repeat("0123456789abcdef", 20), "x"+strings.Repeat("0123456789abcdef", 21), []byte{40})
	f.Add("\x1b]0;abcd\x07", "\x1b]0;ab\x1b\x1b[cd\x1bP\x18abcd\x1b(abcd", []byte{1})
	f.Add("hunter2-hunter2\x00"+strings.Repeat("0123456789", 20), "\"hunter2-h\"… hunt… hunter2-\\\")…"+strings.Repeat("0123456789", 8)+"…", []byte{1})
	f.Fuzz(func(t *testing.T, secrets, text string, cuts []byte) {
		if len(secrets) > 400 || len(text) > 600 {
			t.Skip("too long for the reference")
		}
		checkAgainstReference(t, strings.Split(secrets, "\x00"), text, cuts)
	})
}

func checkAgainstReference(t *testing.T, secrets []string, text string, cuts []byte) {
	t.Helper()
	var all []pattern
	for _, s := range secrets {
		if s = strings.Trim(s, space); len(withoutBreaks(s)) >= MinLength {
			all = append(all, patterns(s)...)
		}
	}
	want := referenceMask(all, text)
	set := NewSet(secrets...)
	if diff := cmp.Diff(want, set.String(text)); diff != "" {
		t.Fatalf("String(%q) with %q (-want +got):\n%s", text, secrets, diff)
	}
	var pieces []string
	from := 0
	for i := 0; from < len(text); i++ {
		to := len(text)
		if len(cuts) > 0 {
			to = min(from+1+int(cuts[i%len(cuts)]), len(text))
		}
		for to < len(text) && endsLine(text[:to]) {
			to++
		}
		pieces = append(pieces, text[from:to])
		from = to
	}
	if diff := cmp.Diff(want, write(set, pieces...)); diff != "" {
		t.Fatalf("writing %q with %q (-want +got):\n%s", pieces, secrets, diff)
	}
}

// TestRandomAgainstReference makes texts of few letters, so that beginnings of secrets are everywhere.
func TestRandomAgainstReference(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	letters := []string{"a", "b", "a", "b", "m", "\n", "\x1b[", "m", "\x1b]", "\x07", "\x1b", "[", "\r", "…", "\"", "\xe2\x80"}
	random := func(n int, from []string) string {
		var b strings.Builder
		for range n {
			b.WriteString(from[rng.IntN(len(from))])
		}
		return b.String()
	}
	for range 1_500 {
		var secrets []string
		for range 1 + rng.IntN(4) {
			secrets = append(secrets, random(4+rng.IntN(12), letters[:5+rng.IntN(len(letters)-4)]))
		}
		cuts := make([]byte, 1+rng.IntN(5))
		for i := range cuts {
			cuts[i] = byte(rng.IntN(1 + rng.IntN(20)))
		}
		checkAgainstReference(t, secrets, random(rng.IntN(120), letters), cuts)
	}
}
