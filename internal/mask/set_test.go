package mask

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
)

func TestForms(t *testing.T) {
	const symbols = "pa'ss \"w\\<o>&/r$d"
	tests := []struct{ name, secret, printed string }{
		{"as it is", symbols, symbols},
		{"JSON", symbols, `pa'ss \"w\\<o>&/r$d`},
		{"JSON of Go", symbols, `pa'ss \"w\\\u003co\u003e\u0026/r$d`},
		{"JSON of PHP", symbols, `pa'ss \"w\\<o>&\/r$d`},
		{"JSON of .NET", symbols, `pa\u0027ss \u0022w\\\u003Co\u003E\u0026/r$d`},
		{"JSON, control characters", "one\x01\ttwo\bx", `one\u0001\ttwo\bx`},
		{"JSON, line breaks", "one\r\ntwo", `one\r\ntwo`},
		{"JSON of Python", "Grüße 😀", `Gr\u00fc\u00dfe \ud83d\ude00`},
		{"query", symbols, `pa%27ss+%22w%5C%3Co%3E%26%2Fr%24d`},
		{"query in lower case", symbols, `pa%27ss+%22w%5c%3co%3e%26%2fr%24d`},
		{"path", symbols, `pa%27ss%20%22w%5C%3Co%3E&%2Fr$d`},
		{"encodeURIComponent", symbols, `pa'ss%20%22w%5C%3Co%3E%26%2Fr%24d`},
		{"user of a URL", "p@ss:w/d?", `p%40ss%3Aw%2Fd%3F`},
		{"form", "a*b~c d", `a*b%7Ec+d`},
		{"a query in a query", symbols, `pa%2527ss%2B%2522w%255C%253Co%253E%2526%252Fr%2524d`},
		{"encodeURIComponent twice", symbols, `pa'ss%2520%2522w%255C%253Co%253E%2526%252Fr%2524d`},
		{"hexadecimal", "hunter2", "68756e74657232"},
		{"hexadecimal in capitals", "zz~zz", "7A7A7E7A7A"},
		{"hexadecimal with separators", "hunter2", "68:75:6e:74:65:72:32"},
		{"hexadecimal with other separators", "zz~zz", "7A-7A-7E-7A-7A"},
		{"dump of bytes", "hunter2", "68 75 6e 74 65 72 32"},
		{"query, every byte", "hunter2", "68%75%6e%74%65%72%32"},
		{"shell, every byte", "hunter2", `68\x75\x6e\x74\x65\x72\x32`},
		{"UTF-16 of Windows", "hunter2", "h\x00u\x00n\x00t\x00e\x00r\x002"},
		{"UTF-16 of Windows, not ASCII", "Grüße 😀", "G\x00r\x00\xfc\x00\xdf\x00e\x00 \x00\x3d\xd8\x00\xde"},
		{"UTF-16 in network order", "Grüße 😀", "G\x00r\x00\xfc\x00\xdf\x00e\x00 \xd8\x3d\xde\x00"},
		{"JSON in JSON", symbols, `pa'ss \\\"w\\\\<o>&/r$d`},
		{"JSON in JSON of Go", symbols, `pa'ss \\\"w\\\\\\u003co\\u003e\\u0026/r$d`},
		{"trace of bash", symbols, `pa'\''ss "w\<o>&/r$d`},
		{"trace of bash, control characters", "one\ttwo\x1b'\x01", `one\ttwo\E\'\001`},
		{"trace of bash, C locale", "Grüße", `Gr\303\274\303\237e`},
		{"trace of a comparison in bash", "hunter2", `\h\u\n\t\e\r\2`},
		{"printf %q", symbols, `pa\'ss\ \"w\\\<o\>\&/r\$d`},
		{"trace of dash", symbols, `pa'"'"'ss "w\<o>&/r$d`},
		{"double quotes", symbols, `pa'ss \"w\\<o>&/r\$d`},
		{"HTML", symbols, `pa&#39;ss &#34;w\&lt;o&gt;&amp;/r$d`},
		{"XML", symbols, `pa&apos;ss &quot;w\&lt;o&gt;&amp;/r$d`},
		{"command line", symbols, `pa'ss \"w\<o>&/r$d`},
		{"inside of double quotes", `"hunter2!"`, "hunter2!"},
		{"PowerShell, before the last &", "part-1&part-2&part-3", "part-1&part-2&"},
		{"PowerShell, after the last &", "part-1&part-2&part-3", "part-3"},
		{"PowerShell, before &+", "part-1&+part-2&part-3", "part-1&+"},
		{"PowerShell, after &+ and a letter", "part-1&+part-2&part-3", "art-2&part-3"},
		{"without the white space around it", "\n hunter2\t\n", "hunter2"},
		{"on lines with other ends", "first line\nsecond\n", "first line\r\nsecond"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			set := NewSet(tt.secret)
			want := "<" + Replacement + strings.Repeat("\r\n", strings.Count(tt.printed, "\r\n")) + ">"
			if diff := cmp.Diff(want, set.String("<"+tt.printed+">")); diff != "" {
				t.Errorf("%q (-want +got):\n%s", tt.printed, diff)
			}
		})
	}
}

func TestShortPiecesStayReadable(t *testing.T) {
	set := NewSet(`"short"`, "secret=1&abcde", "a&+b", "longer-one&+")
	for _, text := range []string{"short", "abcde", "a&+"} {
		if got := set.String(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}

func TestBase64(t *testing.T) {
	for _, secret := range []string{"hunter2!", "hunter2??>>", "abcd", "\xfb\xff\xfe\xfb\xef\xbe"} {
		for before := range 7 {
			for after := range 4 {
				for name, encoding := range base64Encodings {
					t.Run(fmt.Sprintf("%s of %q after %d and before %d bytes", name, secret, before, after), func(t *testing.T) {
						text := strings.Repeat("#", before) + secret + strings.Repeat("#", after)
						got := NewSet(secret).String(encoding.EncodeToString([]byte(text)))
						if strings.Count(got, Replacement) != 1 {
							t.Fatalf("got %q", got)
						}
						// At each end a character holds bits of a neighbour too, and there is padding.
						clear := len(got) - len(Replacement) - (before+after)*8/6
						if clear > 5 {
							t.Errorf("%d characters of the secret survive in %q", clear, got)
						}
					})
				}
			}
		}
	}
}

func TestLinesOfASecret(t *testing.T) {
	set := NewSet("{\n    \"key\": \"it's 12345\",\n    },\n  },\n}\n")
	t.Run("a line is masked on its own", func(t *testing.T) {
		if got := set.String(`x "key": "it's 12345", y`); got != "x [MASKED] y" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("a line is masked in JSON", func(t *testing.T) {
		if got := set.String(`x \"key\": \"it's 12345\", y`); got != "x [MASKED] y" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("a line that is too short without its white space is not", func(t *testing.T) {
		if got := set.String("    },"); got != "    }," {
			t.Errorf("got %q", got)
		}
	})
}

func TestAdd(t *testing.T) {
	t.Run("counts what is masked, once", func(t *testing.T) {
		set := NewSet("hunter2", " hunter2\n", "abc", "", "    \n ", "other")
		set.Add("other", "third")
		if set.Len() != 3 {
			t.Errorf("Len() = %d, want 3", set.Len())
		}
	})
	t.Run("takes effect for an open writer", func(t *testing.T) {
		set := NewSet("first")
		var out strings.Builder
		w := set.NewWriter(func(p []byte) { out.Write(p) })
		w.Write([]byte("first second fir"))
		set.Add("second")
		w.Write([]byte("st second"))
		w.Flush()
		if diff := cmp.Diff("[MASKED] second [MASKED] [MASKED]", out.String()); diff != "" {
			t.Errorf("output (-want +got):\n%s", diff)
		}
	})
	t.Run("is safe while others write", func(t *testing.T) {
		set := NewSet("hunter2")
		var group sync.WaitGroup
		for g := range 4 {
			group.Go(func() {
				secret := fmt.Sprintf("secret-number-%d", g)
				w := set.NewWriter(func(p []byte) {
					if bytes.Contains(p, []byte("hunter2")) {
						t.Errorf("a secret came out: %q", p)
					}
				})
				for i := range 20 {
					set.Add(fmt.Sprintf("%s-%d", secret, i))
					w.Write([]byte("hunter2 and more\n"))
					if got := set.String(fmt.Sprintf("%s-%d", secret, i)); got != Replacement {
						t.Errorf("got %q", got)
					}
				}
				w.Flush()
			})
		}
		group.Wait()
	})
}

func TestOtherBytesAreUnchanged(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 14))
	set := NewSet(secretsLike(100)...)
	data := make([]byte, 300_000)
	for i := range data {
		data[i] = byte(rng.Uint32())
		if rng.IntN(10) == 0 {
			data[i] = "\x1b\r\n[]m\x00\xff"[rng.IntN(8)]
		}
	}
	if got := write(set, split(rng, string(data))...); got != string(data) {
		t.Error("binary data in small writes came out changed")
	}
	if got := write(set, string(data)); got != string(data) {
		t.Error("binary data in one write came out changed")
	}
	if got := set.String(string(data)); got != string(data) {
		t.Error("String changed binary data")
	}
}

func TestHugeLine(t *testing.T) {
	const secret, units = "hunter2-hunter2", 2_000
	unit := strings.Repeat("x", 4_999) + secret + "\x1b[1m"
	line := strings.Repeat(unit, units)
	out := 0
	w := NewSet(secret).NewWriter(func(p []byte) {
		if len(p) > 2*blockSize {
			t.Errorf("%d bytes came out together", len(p))
		}
		if bytes.Contains(p, []byte("hunter2")) {
			t.Fatal("a secret came out")
		}
		out += len(p)
	})
	w.Write([]byte(line))
	if missing := units*(len(unit)-len(secret)+len(Replacement)) - out; missing != 0 {
		t.Errorf("%d bytes did not come out", missing)
	}
}

func TestMemory(t *testing.T) {
	rng := rand.New(rand.NewPCG(17, 18))
	unlike := make([]string, 1000) // nothing shared, and symbols that all encoders write in their own way
	for i := range unlike {
		unlike[i] = randomText(rng, 20) + "!&/ '" + randomText(rng, 15)
	}
	for name, secrets := range map[string][]string{"common": secretsLike(1000), "unlike": unlike} {
		t.Run("a thousand "+name+" secrets take less than 4 MB", func(t *testing.T) {
			m := NewSet(secrets...).matcher()
			size := int(unsafe.Sizeof(*m)) + cap(m.nodes)*int(unsafe.Sizeof(node{})) + cap(m.labels) + 4*cap(m.prefixes) + 4*cap(m.slots)
			t.Logf("%d bytes, %d nodes, %d prefixes", size, len(m.nodes), len(m.prefixes))
			if size > 4<<20 {
				t.Errorf("the matcher takes %d bytes", size)
			}
		})
	}
	t.Run("a text without secrets is not copied", func(t *testing.T) {
		set := NewSet(secretsLike(100)...)
		text := string(realisticLog(1_000, false))
		set.String(text)
		if got := set.String(text); unsafe.StringData(got) != unsafe.StringData(text) {
			t.Error("String returned a copy")
		}
	})
	secret := "hunter2-hunter2-hunter2"
	floods := []struct{ name, before, unit, want string }{
		{"escape sequences inside a secret", "hunter2-hun", "\x1b[1m", Replacement},
		{"line breaks inside a secret", "hunter2-hun", "\n", Replacement},
		{"escape sequences after a short beginning", "hunt", "\x1b[1m", "hunt"},
		{"titles inside a secret", "hunter2-hun", "\x1b]0;" + secret + "\x07", Replacement},
		{"beginnings inside sequences", "", "\x1bh", ""},
		{"an endless title", "", "\x1b]0;" + strings.Repeat("hunter2-", 200), ""},
	}
	for _, tt := range floods {
		t.Run("a writer does not grow with "+tt.name, func(t *testing.T) {
			var out bytes.Buffer
			w := NewSet(secret).NewWriter(func(p []byte) { out.Write(p) })
			w.Write([]byte(tt.before))
			for range 1_000 {
				w.Write([]byte(strings.Repeat(tt.unit, 10)))
				if len(w.kept) > maxHeld {
					t.Fatalf("%d bytes are kept", len(w.kept))
				}
			}
			w.Write([]byte(secret[len(tt.before):]))
			w.Flush()
			got := stripped(strings.ReplaceAll(out.String(), Replacement, "\x00"))
			if want := strings.ReplaceAll(tt.want, Replacement, "\x00"); tt.before != "" && strings.Trim(got, "\x00") != strings.Trim(want, "\x00") {
				t.Errorf("text is %q, want %q", got, want)
			}
			if strings.Contains(out.String(), secret) {
				t.Error("a secret came out")
			}
		})
	}
}

var base64Encodings = map[string]*base64.Encoding{
	"standard": base64.StdEncoding, "raw": base64.RawStdEncoding, "URL": base64.URLEncoding, "raw URL": base64.RawURLEncoding,
}

func TestSecretsThatComeOneByOneAreAllFound(t *testing.T) {
	set, together := NewSet(), NewSet()
	var text strings.Builder
	for i := range 200 {
		secret := fmt.Sprintf("secret-%d-%s", i, strings.Repeat("x", i%130)) // longer than a part, too
		together.Add(secret)
		set.Add(secret)
		if got := set.String(secret); got != Replacement {
			t.Fatalf("%d: %s", i, got)
		}
		fmt.Fprintf(&text, "%s %q %s\n", secret, secret, secret[:len(secret)/2])
		if parts := len(set.parts); parts > 8 { // 2^8 > 200
			t.Fatalf("%d secrets are in %d parts", i+1, parts)
		}
	}
	if got, want := set.String(text.String()), together.String(text.String()); got != want {
		t.Errorf("one by one %q, together %q", got, want)
	}
}

func TestLongFormsAreSkippedAndShortOnesAreNot(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		secrets []string
		skips   bool
	}{{[]string{"a secret value", "glpat-abcdefghij0123456789"}, true}, {[]string{"four"}, false}, {[]string{"a secret value", "four"}, false}, {nil, false}} {
		if got := NewSet(c.secrets...).matcher().skip != nil; got != c.skips {
			t.Errorf("%q: skipping is %t", c.secrets, got)
		}
	}
	for secret, window := range map[string]int{"a secret value": 14, strings.Repeat("long ", 40): maxWindow} {
		if got := NewSet(secret).matcher().skip.window; got != window {
			t.Errorf("the window for %q has %d bytes, not %d", secret, got, window)
		}
	}
	many := make([]string, 40)
	for i := range many {
		many[i] = fmt.Sprintf("%d%s", i, strings.Repeat("0", 70))
	}
	if skip := NewSet(many...).matcher().skip; skip == nil || skip.window != manyWindow {
		t.Errorf("for many secrets: %+v", skip)
	}
	// A secret is found wherever its window falls: at each place of a text, and across writes.
	for at := range 120 {
		text := strings.Repeat("x", at) + "a secret value" + strings.Repeat("y", 120-at)
		want := strings.Repeat("x", at) + Replacement + strings.Repeat("y", 120-at)
		if got := NewSet("a secret value").String(text); got != want {
			t.Fatalf("at %d: %s", at, got)
		}
		checkAgainstReference(t, []string{"a secret value"}, text, []byte{byte(at), 7})
	}
}

func TestMergedPatternsAreThoseOfAllSecrets(t *testing.T) {
	a := []string{"abcdef", "line one\nline two", strings.Repeat("long ", 100), "same same"}
	b := []string{"abcd", "line two", "long long long long " + strings.Repeat("long ", 40), "same same", "\x00binary\xff"}
	got := merge(sorted(a), sorted(b))
	if want := sorted(append(slices.Clone(a), b...)); !slices.Equal(got, want) {
		t.Errorf("merged: %d patterns, together: %d", len(got), len(want))
	}
}

func TestAPartThatKeptNoPatternsIsCompiledWithOthers(t *testing.T) {
	s := NewSet("first secret")
	_ = s.String("text")
	s.parts[0].patterns = nil // as of one with more than maxPatterns
	s.Add("another one")
	if got := s.String("first secret, another one"); got != "[MASKED], [MASKED]" {
		t.Error(got)
	}
}
