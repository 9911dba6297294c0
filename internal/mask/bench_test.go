package mask

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// secretsLike returns n secrets as they occur in practice: tokens, passwords and connection strings.
func secretsLike(n int) []string {
	rng := rand.New(rand.NewPCG(7, 8))
	all := make([]string, n)
	for i := range all {
		switch i % 4 {
		case 0:
			all[i] = "glpat-" + randomText(rng, 20)
		case 1:
			all[i] = "ghp_" + randomText(rng, 36)
		case 2:
			all[i] = randomText(rng, 12) + "!&" + randomText(rng, 10)
		default:
			all[i] = "postgres://app:" + randomText(rng, 24) + "@db.internal:5432/app"
		}
	}
	return all
}

// realisticLog returns about size bytes of the log of a build, with colours or without.
func realisticLog(size int, coloured bool) []byte {
	rng := rand.New(rand.NewPCG(9, 10))
	var b bytes.Buffer
	for i := 0; b.Len() < size; i++ {
		var line string
		switch rng.IntN(6) {
		case 0:
			line = fmt.Sprintf("2026-01-02T03:04:%02d.%06dZ INFO  [main] com.example.app.Service - request %d took %d ms", i%60, i, i, rng.IntN(900))
		case 1:
			line = fmt.Sprintf("[INFO] Downloaded from central: https://repo.example.org/maven2/org/apache/maven/%s/1.%d/a.jar (%d kB at 2.1 MB/s)", randomText(rng, 9), i, rng.IntN(999))
		case 2:
			line = fmt.Sprintf("ok  \tgithub.com/example/project/internal/%s\t0.%03ds", strings.ToLower(randomText(rng, 7)), rng.IntN(999))
		case 3:
			line = fmt.Sprintf("#%d sha256:%x 3.4MB / 9.9MB 0.2s", i%40, rng.Uint64())
		case 4:
			line = fmt.Sprintf("+ docker build --tag registry.example.com/group/app:%x --build-arg VERSION=1.2.%d .", rng.Uint32(), i)
		default:
			line = fmt.Sprintf(`{"level":"info","ts":%d,"caller":"server/handler.go:%d","msg":"accepted","peer":"10.0.%d.7"}`, 1_700_000_000+i, rng.IntN(400), rng.IntN(255))
		}
		if coloured {
			words := strings.Fields(line)
			for k := range words {
				if k%3 == 0 {
					words[k] = fmt.Sprintf("\x1b[%dm%s\x1b[0m", 31+k%6, words[k])
				}
			}
			line = strings.Join(words, " ")
		}
		b.WriteString(line)
		b.WriteByte('\n')
	}
	return b.Bytes()
}

func benchmarkWriter(b *testing.B, set *Set, log []byte, write int) {
	w := set.NewWriter(func([]byte) {})
	set.matcher() // compiled before the clock starts
	b.SetBytes(int64(len(log)))
	b.ReportAllocs()
	for b.Loop() {
		for rest := log; len(rest) > 0; {
			n := min(write, len(rest))
			w.Write(rest[:n])
			rest = rest[n:]
		}
	}
	w.Flush()
}

const logSize = 8 << 20

func BenchmarkWriter(b *testing.B) {
	logs := []struct {
		name string
		text []byte
	}{{"plain", realisticLog(logSize, false)}, {"coloured", realisticLog(logSize, true)}}
	for _, log := range logs {
		for _, n := range []int{0, 1, 10, 100, 1000} {
			set := NewSet(secretsLike(n)...)
			b.Run(fmt.Sprintf("%s/secrets=%d", log.name, n), func(b *testing.B) { benchmarkWriter(b, set, log.text, 32<<10) })
		}
	}
}

func BenchmarkWriterSmallWrites(b *testing.B) {
	log := realisticLog(logSize/8, false)
	set := NewSet(secretsLike(100)...)
	for _, size := range []int{1, 100, 4096} {
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) { benchmarkWriter(b, set, log, size) })
	}
}

// BenchmarkWriterMasking has a secret on each tenth line or so.
func BenchmarkWriterMasking(b *testing.B) {
	secrets := secretsLike(100)
	lines := bytes.SplitAfter(realisticLog(logSize, false), []byte("\n"))
	for i := 0; i < len(lines); i += 10 {
		lines[i] = []byte("Authorization: Bearer " + secrets[i%len(secrets)] + "\n")
	}
	log := bytes.Join(lines, nil)
	benchmarkWriter(b, NewSet(secrets...), log, 32<<10)
}

// BenchmarkWriterAdversarial measures the logs that are worst for the set of secrets.
func BenchmarkWriterAdversarial(b *testing.B) {
	many := NewSet(secretsLike(1000)...)
	nested := NewSet()
	for n := MinLength; n < 100; n++ {
		nested.Add(strings.Repeat("a", n))
	}
	tests := []struct {
		name string
		set  *Set
		unit string
	}{
		{"one character", many, "a"},
		{"one character, which is the secret", NewSet(strings.Repeat("a", 16_000)), "a"},
		{"one character, and secrets of any number of it", nested, "a"},
		{"one character, with a secret that ends in another", NewSet(strings.Repeat("a", 120) + "b"), "a"},
		{"a prefix that thousands share", NewSet(append(secretsLike(1000), sharingPrefix(3000)...)...), "glpat-"},
		{"a prefix that thousands share, and a letter", NewSet(append(secretsLike(1000), sharingPrefix(3000)...)...), "glpat-Zglpat-a"},
		{"nothing but ESC", many, "\x1b"},
		{"nothing but short sequences", many, "\x1bg"},
		{"nothing but colours", many, "\x1b[1;31m"},
		{"nothing but line breaks", many, "\n"},
		{"unterminated titles", many, "\x1b]0;glpat-abcdefgh"},
		{"lines of one character", many, "g\n"},
		{"beginnings of a secret at the end of lines", NewSet("hunter2-hunter2-hunter2"), "my hunter2\n"},
	}
	for _, tt := range tests {
		log := []byte(strings.Repeat(tt.unit, logSize/8/len(tt.unit)))
		b.Run(strings.ReplaceAll(tt.name, " ", "_"), func(b *testing.B) { benchmarkWriter(b, tt.set, log, 32<<10) })
	}
}

func sharingPrefix(n int) []string {
	rng := rand.New(rand.NewPCG(11, 12))
	all := make([]string, n)
	for i := range all {
		all[i] = "glpat-" + randomText(rng, 20)
	}
	return all
}

func BenchmarkString(b *testing.B) {
	set := NewSet(secretsLike(100)...)
	text := string(realisticLog(200, false))
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		set.String(text)
	}
}

// BenchmarkCompile is the cost of the first write after secrets were added.
func BenchmarkCompile(b *testing.B) {
	for _, n := range []int{1, 100, 1000} {
		secrets := secretsLike(n)
		b.Run(fmt.Sprintf("secrets=%d", n), func(b *testing.B) {
			for b.Loop() {
				NewSet(secrets...).matcher()
			}
		})
	}
}

// BenchmarkSecretsOneByOne is a log in which every line brings a new secret.
func BenchmarkSecretsOneByOne(b *testing.B) {
	for b.Loop() {
		s := NewSet()
		for i := range 1000 {
			s.Add(fmt.Sprintf("secretvalue%d", i))
			_ = s.String("a line of the log")
		}
	}
}
