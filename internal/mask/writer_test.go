package mask

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// write masks a stream that is written in the given pieces.
func write(set *Set, pieces ...string) string {
	var out strings.Builder
	w := set.NewWriter(func(p []byte) { out.Write(p) })
	for _, p := range pieces {
		if n, err := w.Write([]byte(p)); n != len(p) || err != nil {
			panic(fmt.Sprintf("Write returned %d, %v for %d bytes", n, err, len(p)))
		}
	}
	w.Flush()
	return out.String()
}

func bytewise(text string) []string { return strings.Split(text, "") }

func TestWriter(t *testing.T) {
	set := func(secrets ...string) *Set { return NewSet(secrets...) }
	tests := []struct {
		name string
		set  *Set
		in   []string
		want string
	}{
		{name: "a secret is replaced (C1)", set: set("secrets"), in: []string{"x secrets y"}, want: "x [MASKED] y"},
		{name: "adjacent secrets are replaced one by one (C2)", set: set("secrets"), in: []string{"secretssecrets"}, want: "[MASKED][MASKED]"},
		{name: "a false start before a secret is kept (C3)", set: set("secrets"), in: []string{"s", "secrets"}, want: "s[MASKED]"},
		{name: "a split secret is replaced (C1)", set: set("secrets"), in: []string{"secret", "s"}, want: "[MASKED]"},
		{name: "an empty secret changes nothing (C4)", set: set("", "secrets"), in: []string{"secrets x"}, want: "[MASKED] x"},
		{name: "letters around secrets are kept (C5)", set: set("foop", "barp"), in: []string{"xfoopx ybarpy ffoop barpp ffoopp bbarpp"}, want: "x[MASKED]x y[MASKED]y f[MASKED] [MASKED]p f[MASKED]p b[MASKED]p"},
		{name: "a secret that overlaps itself is found: aaab (C9)", set: set("aaab"), in: bytewise("aaaab"), want: "a[MASKED]"},
		{name: "a secret that overlaps itself is found: abac (C9)", set: set("abacd"), in: []string{"aba", "bacd"}, want: "ab[MASKED]"},
		{name: "a secret that overlaps itself is found: ababc (C9)", set: set("ababc"), in: []string{"abab", "abc"}, want: "ab[MASKED]"},
		{name: "the longer of two secrets wins", set: set("mask", "mask_more"), in: []string{"mask_more mask mask_mor"}, want: "[MASKED] [MASKED] [MASKED]_mor"},
		{name: "the longer of two secrets wins when split", set: set("mask", "mask_more"), in: []string{"mask", "_more mask", "_les"}, want: "[MASKED] [MASKED]_les"},
		{name: "a secret inside another makes no second mask (C6)", set: set("pre_mask", "mask"), in: []string{"pre_", "mask"}, want: "[MASKED]"},
		{name: "overlapping secrets become one (C8)", set: set("this is the end", "end foobar", "foobar"), in: []string{"this is the", " end foobar."}, want: "[MASKED]."},
		{name: "a run of one character becomes one", set: set("aaaa"), in: []string{"aaaaaaa", "aaaaaaaaa"}, want: "[MASKED]"},
		{name: "a beginning at the end of the stream comes out", set: set("secrets"), in: []string{"secret"}, want: "secret"},
		{name: "colours inside a secret are kept after it", set: set("hunter2"), in: []string{"hun\x1b[31mter\x1b[0m2!"}, want: "[MASKED]\x1b[31m\x1b[0m!"},
		{name: "colours around a secret stay around it", set: set("hunter2"), in: []string{"\x1b[1mhunter2\x1b[0m"}, want: "\x1b[1m[MASKED]\x1b[0m"},
		{name: "line breaks inside a secret are kept after it", set: set("hunter2"), in: []string{"hunt\r\ner2\n"}, want: "[MASKED]\r\n\n"},
		{name: "a hyperlink inside a secret is kept", set: set("hunter2"), in: []string{"hunt\x1b]8;;http://x\x1b\\er2"}, want: "[MASKED]\x1b]8;;http://x\x1b\\"},
		{name: "a short sequence inside a secret is kept", set: set("hunter2"), in: []string{"hunt\x1b(Ber\x1b72"}, want: "[MASKED]\x1b(B\x1b7"},
		{name: "a secret in a window title is replaced", set: set("hunter2"), in: []string{"\x1b]0;hunter2\x07 ok"}, want: "\x1b]0;[MASKED]\x07 ok"},
		{name: "a secret in a title inside a secret is replaced", set: set("hunter2"), in: []string{"hun\x1b]0;hunter2\x07ter2"}, want: "[MASKED]\x1b]0;[MASKED]\x07"},
		{name: "a secret whose first letter ends a sequence is replaced", set: set("hunter2"), in: []string{"\x1bhunter2 \x1b[3hunter2"}, want: "\x1b[MASKED] \x1b[3[MASKED]"},
		{name: "an unterminated title does not hide a secret", set: set("hunter2"), in: []string{"\x1b]0;title hun\x1b[31mter2"}, want: "\x1b]0;title [MASKED]\x1b[31m"},
		{name: "an unterminated title ends with the line", set: set("hunter2"), in: []string{"\x1b]0;title\nhun\x1b[1mter2"}, want: "\x1b]0;title\n[MASKED]\x1b[1m"},
		{name: "a sequence that is cut short is text again", set: set("hunter2"), in: []string{"hun\x1b[3\x01ter2"}, want: "hun\x1b[3\x01ter2"},
		{name: "nothing is masked without secrets", set: set(), in: []string{"hunter2\x1b[0m\r\n"}, want: "hunter2\x1b[0m\r\n"},
		{name: "values that are too short are not masked", set: set("abc", " ab \n", "a\nb\nc"), in: []string{"abc ab a\nb\nc"}, want: "abc ab a\nb\nc"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, write(tt.set, tt.in...)); diff != "" {
				t.Errorf("as written (-want +got):\n%s", diff)
			}
			text := strings.Join(tt.in, "")
			if diff := cmp.Diff(tt.want, tt.set.String(text)); diff != "" {
				t.Errorf("String (-want +got):\n%s", diff)
			}
			if strings.Contains(text, "\n") {
				return // lines come out early
			}
			if diff := cmp.Diff(tt.want, write(tt.set, bytewise(text)...)); diff != "" {
				t.Errorf("byte by byte (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLongSecret(t *testing.T) {
	secret := randomText(rand.New(rand.NewPCG(1, 2)), 16_000)
	set := NewSet(secret)
	t.Run("is one mask when split in two (C7)", func(t *testing.T) {
		for _, at := range []int{1, 63, 64, 65, 127, 128, 8_000, 15_999} {
			if got := write(set, "<"+secret[:at], secret[at:]+">"); got != "<[MASKED]>" {
				t.Fatalf("split at %d: got %.200q", at, got)
			}
		}
	})
	t.Run("is one mask on lines of 76 characters in base64", func(t *testing.T) {
		var wrapped strings.Builder
		encoded := base64.StdEncoding.EncodeToString([]byte("user:" + secret))
		for ; len(encoded) > 76; encoded = encoded[76:] {
			wrapped.WriteString(encoded[:76] + "\n")
		}
		wrapped.WriteString(encoded + "\n")
		got := strings.ReplaceAll(write(set, wrapped.String()), "\n", "")
		if !strings.HasPrefix(got, "dXNlc") || strings.Count(got, Replacement) != 1 || len(got) > 30 {
			t.Errorf("got %.200q", got)
		}
	})
	t.Run("is masked in part when a part is printed", func(t *testing.T) {
		got := write(set, secret[1_000:2_000])
		if !strings.Contains(got, Replacement) || len(got) > 2*partSize+len(Replacement) {
			t.Errorf("got %.300q", got)
		}
	})
}

func TestLinesComeOutAtOnce(t *testing.T) {
	tests := []struct {
		name   string
		secret string
		writes []string
		want   []string // what has come out after each write; the last is after the flush
	}{
		{
			"a line that does not end like a secret", "hunter2-hunter2-hunter2", []string{"hello\n", "world"},
			[]string{"hello\n", "hello\nworld", "hello\nworld"},
		}, {
			"a short beginning, and the rest is still masked", "hunter2-hunter2-hunter2",
			[]string{"my hunter2\n", "-hunt", "er2-hunter2!"},
			[]string{"my hunter2\n", "my hunter2\n", "my hunter2\n[MASKED]!", "my hunter2\n[MASKED]!"},
		}, {
			"a short beginning, and the rest is not a secret", "hunter2-hunter2-hunter2",
			[]string{"my hunter2\n", "-hunt", "er3"},
			[]string{"my hunter2\n", "my hunter2\n", "my hunter2\n-hunter3", "my hunter2\n-hunter3"},
		}, {
			"a beginning before the colours are switched off", "hunter2-hunter2-hunter2",
			[]string{"hunter2\n\x1b[0m", "-hunter2-hunter2"},
			[]string{"hunter2\n\x1b[0m", "hunter2\n\x1b[0m[MASKED]", "hunter2\n\x1b[0m[MASKED]"},
		}, {
			"not a beginning of eight bytes", "hunter2-hunter2-hunter2",
			[]string{"hunter2-\n", "hunter2-hunter2\n"},
			[]string{"", "[MASKED]\n\n", "[MASKED]\n\n"},
		}, {
			"not a beginning that is more than half of the secret", "hunter2",
			[]string{"my hunt\n", "er2\n"},
			[]string{"my ", "my [MASKED]\n\n", "my [MASKED]\n\n"},
		}, {
			"a complete secret that may go on", "hunter2 hunter2",
			[]string{"x\n", "hun", "t\n"},
			[]string{"x\n", "x\n", "x\nhunt\n", "x\nhunt\n"},
		}, {
			"two beginnings at once", "aabaabaabaabaabaab",
			[]string{"aaba\n", "abaab", "aabaabaab."},
			[]string{"aaba\n", "aaba\n", "aaba\n[MASKED].", "aaba\n[MASKED]."},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			var got []string
			w := NewSet(tt.secret).NewWriter(func(p []byte) { out.Write(p) })
			for _, p := range tt.writes {
				w.Write([]byte(p))
				got = append(got, out.String())
			}
			w.Flush()
			got = append(got, out.String())
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("output after each write (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOutputDoesNotDependOnWrites(t *testing.T) {
	secrets := []string{"hunter2", "p@ss 'w<or>d/\"$\\1", "hunter2hunter3", "aaaa", "multi line\nsecret-of\nthree lines", "Grüße, Welt"}
	set := NewSet(secrets...)
	var all []string
	for _, s := range secrets {
		all = append(all, forms(s)...)
	}
	for _, form := range all {
		text := "a line\x1b[31m " + form[:len(form)/2] + "\x1b[0;1m" + form[len(form)/2:] + "\x1b]0;" + form + "\x07 haaaahunter2hunter3 " + form
		want := set.String(text)
		for i := range len(text) {
			if endsLine(text[:i]) {
				continue
			}
			if diff := cmp.Diff(want, write(set, text[:i], text[i:])); diff != "" {
				t.Fatalf("%q split at %d (-want +got):\n%s", text, i, diff)
			}
		}
	}
}

// endsLine reports whether a writer may let out more because a write ends here.
func endsLine(text string) bool {
	all := kinds(text)
	for i := len(all) - 1; i >= 0 && all[i] != textByte; i-- {
		if all[i] == breakByte {
			return true
		}
	}
	return false
}

// stripped returns what a reader sees who joins the lines and removes colours and masks.
func stripped(text string) string {
	var b strings.Builder
	for i, k := range kinds(text) {
		if k == textByte {
			b.WriteByte(text[i])
		}
	}
	return strings.ReplaceAll(b.String(), Replacement, "\xff")
}

func TestNoPieceOfASecretSurvives(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	secret := "kT9#vQ2'xW7&zL4/pB6 mN8\"rJ3\\"
	set := NewSet(secret)
	const pieceSize = 8
	for round := range 3_000 {
		form := forms(secret)[round%len(forms(secret))]
		var log strings.Builder
		log.WriteString("= ")
		for _, c := range bytewise(form) {
			switch rng.IntN(12) {
			case 0:
				log.WriteString("\x1b[38;5;12m")
			case 1:
				log.WriteString([]string{"\n", "\r\n", "\r"}[rng.IntN(3)])
			case 2:
				log.WriteString("\x1b]0;~\x07")
			}
			log.WriteString(c)
		}
		log.WriteString(" =\n")
		got := stripped(write(set, split(rng, log.String())...))
		for i := 0; i+pieceSize <= len(form); i++ {
			if strings.Contains(got, form[i:i+pieceSize]) {
				t.Fatalf("%q of %q survives in %q, from %q", form[i:i+pieceSize], form, got, log.String())
			}
		}
	}
}

// split cuts a text at random.
func split(rng *rand.Rand, text string) []string {
	var pieces []string
	for len(text) > 0 {
		n := min(1+rng.IntN(1+rng.IntN(20)), len(text))
		pieces, text = append(pieces, text[:n]), text[n:]
	}
	return pieces
}

func randomText(rng *rand.Rand, n int) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	b := make([]byte, n)
	for i := range b {
		b[i] = letters[rng.IntN(len(letters))]
	}
	return string(b)
}
