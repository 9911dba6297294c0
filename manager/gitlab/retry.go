package gitlab

import (
	"context"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// How a request is repeated. Source: network/retry_requester.go in gitlab-runner.
const (
	maxAttempts  = 5
	firstBackoff = 100 * time.Millisecond
	lastBackoff  = time.Minute
	// MaxWait is the longest wait between two attempts, whatever GitLab asks for.
	MaxWait = 10 * time.Minute
)

// repeatable reports whether a request with this answer may succeed the next time. Errors of the network are not repeated here:
// callers do, each in its own rhythm.
func repeatable(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway,
		http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return status >= 512 // those of CDNs
}

// backoff is how long to wait after this attempt, counted from 1: what GitLab asks for, or else twice as long as before, up to lastBackoff.
func backoff(attempt int, h http.Header) time.Duration {
	if at, err := time.Parse(time.RFC1123, h.Get("RateLimit-ResetTime")); err == nil {
		return min(max(time.Until(at), 0), MaxWait)
	}
	if seconds, err := strconv.Atoi(h.Get("Retry-After")); err == nil && seconds >= 0 {
		return min(time.Duration(seconds)*time.Second, MaxWait)
	}
	d := min(firstBackoff<<(attempt-1), lastBackoff)
	return d/2 + rand.N(d/2+1) // not all runners at once
}

// sleep waits in real time.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
