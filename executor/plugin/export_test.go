package plugin

import "time"

// Hurry makes the limits of calls short, for tests of what happens beyond them.
func Hurry() {
	limits.silence, limits.prompt, limits.probe = 8*time.Second, 6*time.Second, 2*time.Second
}
