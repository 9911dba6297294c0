package plugin

import "time"

// Hurry makes the limits of calls short, for tests of what happens beyond them.
func Hurry() {
	limits.silence, limits.prompt = 8*time.Second, 6*time.Second
	ExecutorKind.Probe, ProviderKind.Probe = 2*time.Second, 2*time.Second
}
