package container

import (
	"path"
	"slices"
	"strings"

	"github.com/rungci/rung/internal/lazyregexp"
	"github.com/rungci/rung/internal/shellscript"
)

// shellText is the option after which a shell reads one word of script: -c, or others with it, as in -lc.
var shellText = lazyregexp.New(`^-[A-Za-z]*c$`)

// EntrypointArgs are the arguments of an entrypoint that is to run a command. A shell that ends with -c gets it as one word: of several, it
// would run the first alone.
func EntrypointArgs(entrypoint, command []string) []string {
	last := len(entrypoint) - 1
	if last < 1 || !shellText.MatchString(entrypoint[last]) ||
		!slices.ContainsFunc(entrypoint[:last], func(word string) bool { return strings.HasSuffix(path.Base(word), "sh") }) {
		return command
	}
	words := []string{"exec"}
	for _, word := range command {
		words = append(words, shellscript.Quote(word, shellscript.Sh))
	}
	return []string{strings.Join(words, " ")}
}
