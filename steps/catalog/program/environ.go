package program

import (
	"strings"
	"time"
)

// childGrace is how long a command of a built-in step has to end when the step is stopped.
const childGrace = 5 * time.Second

// overlaid returns an environment with variables set over it, each name once.
func overlaid(env, more []string) []string {
	if len(more) == 0 {
		return env
	}
	place := make(map[string]int, len(env)+len(more))
	out := make([]string, 0, len(env)+len(more))
	for _, pair := range append(append([]string(nil), env...), more...) {
		name, _, _ := strings.Cut(pair, "=")
		if i, ok := place[name]; ok {
			out[i] = pair
			continue
		}
		place[name] = len(out)
		out = append(out, pair)
	}
	return out
}
