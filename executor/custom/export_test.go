package custom

import "time"

// Hurry makes what only waits short, for tests.
func Hurry() { probeTime, attemptPause = 5*time.Second, 100*time.Millisecond }
