package mask

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestSecretsThatAreCut has what messages do with a text that is too long for them.
func TestSecretsThatAreCut(t *testing.T) {
	secret := randomText(rand.New(rand.NewPCG(19, 20)), 100)
	symbols := `p"ss'w\rd&<` + secret
	set := NewSet(secret, symbols, "hunter2")
	for in, want := range map[string]string{
		fmt.Sprintf("%q…", "x-"+secret[:58]):                    `"x-[MASKED]"…`,
		fmt.Sprintf("%q", "x-"+secret[:58]+"…"):                 `"x-[MASKED]…"`,
		fmt.Sprintf("%q", fmt.Sprintf("%q…", secret[:60])):      `"\"[MASKED]\"…"`,
		fmt.Sprintf("%q…", symbols[:60]):                        `"[MASKED]"…`,
		"[" + secret[:99] + "]…, and " + secret[:20] + "… more": "[[MASKED]]…, and [MASKED]… more",
		secret + secret[:70] + "…":                              "[MASKED]…",
		"one line\n" + secret[:9] + "…\nand another":            "one line\n[MASKED]…\nand another",
		secret[:30] + "\x1b[1m" + secret[30:60] + "\x1b[0m…":    "[MASKED]\x1b[1m\x1b[0m…",
		// What may come out at the end of a line may come out before an ellipsis, and what is not cut is no beginning.
		secret[:7] + "…, hunt… but hun…, hunte…": secret[:7] + "…, [MASKED]… but hun…, [MASKED]…",
		secret[:60] + " …":                       secret[:60] + " …",
		"building … and " + secret[:60]:          "building … and " + secret[:60],
	} {
		if diff := cmp.Diff(want, set.String(in)); diff != "" {
			t.Errorf("String(%q) (-want +got):\n%s", in, diff)
		}
		if diff := cmp.Diff(want, write(set, in)); diff != "" {
			t.Errorf("writing %q (-want +got):\n%s", in, diff)
		}
		if strings.Contains(in, "\n") {
			continue // lines come out early
		}
		if diff := cmp.Diff(want, write(set, bytewise(in)...)); diff != "" {
			t.Errorf("writing %q byte by byte (-want +got):\n%s", in, diff)
		}
	}
}

func TestALongSecretIsCutAnywhere(t *testing.T) {
	secret := randomText(rand.New(rand.NewPCG(21, 22)), 1000)
	set := NewSet(secret)
	for n := releaseLimit; n < len(secret); n++ {
		rest := n - n/partSize*partSize // of a part of which less than releaseLimit bytes are there
		got := set.String("<" + secret[:n] + "…>")
		if got != "<[MASKED]…>" && (n < partSize || rest >= releaseLimit || got != "<[MASKED]"+secret[n-rest:n]+"…>") {
			t.Fatalf("%d: %s", n, got)
		}
	}
}
