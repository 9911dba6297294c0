// Package masktest tests what shortens texts for messages: of a secret that is cut, the mask must find the beginning.
package masktest

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/rungci/rung/internal/mask"
)

// most is how much of a secret a message may show, in bytes.
const most = 7

// Shortens tests a function that shortens texts to about size bytes: it cuts a long secret at every place, and none of it is left after masking.
func Shortens(t *testing.T, size int, shorten func(text string) string) {
	t.Helper()
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	rng := rand.New(rand.NewPCG(1, 2))
	secret := make([]byte, 100)
	for i := range secret {
		secret[i] = letters[rng.IntN(len(letters))]
	}
	set, cut := mask.NewSet(string(secret)), false
	for before := max(0, size-len(secret)-20); before < size+20; before++ {
		text := strings.Repeat("-", before) + string(secret) + strings.Repeat("-", 4*size)
		short := shorten(text)
		cut = cut || strings.Contains(short, string(secret[:most+1])) && !strings.Contains(short, string(secret))
		shown := set.String(short)
		for i := 0; i+most < len(secret); i++ {
			if piece := string(secret[i : i+most+1]); strings.Contains(shown, piece) {
				t.Fatalf("with %d bytes before a secret, %q of it are shown: %.1000s", before, piece, shown)
			}
		}
	}
	if !cut {
		t.Fatalf("a text of %d bytes is not cut there", size)
	}
}
