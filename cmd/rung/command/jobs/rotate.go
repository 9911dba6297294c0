package jobs

import (
	"context"
	"time"

	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/manager/registration"
)

// rotateEvery is how often it is looked whether a token is due, or has to be written to the configuration.
const rotateEvery = time.Minute

// write writes the tokens to the configuration that GitLab has issued and that could not be written before. The manager uses them whether or not they
// are there. It returns whether any is there now. Those that are not are in c alone.
func (m *managed) write(tokens *registration.Manager, c *config.Config) (written bool) {
	for i := range c.Runners {
		r := &c.Runners[i]
		next, err := m.Rotated(r)
		if err != nil || next == nil {
			continue // a runner whose state cannot be read says so where it is used
		}
		if err := tokens.Replace(r, *next); err != nil {
			m.log.Error("cannot write the new token to the configuration: the token is used from the state folder, and writing is retried", "runner", r.Name, "config", tokens.Path, "error", err, "retry_in", rotateEvery)
		} else {
			m.log.Info("a token that GitLab has issued before is in the configuration now", "runner", r.Name)
			written = true
		}
		r.Token, r.TokenObtainedAt, r.TokenExpiresAt = next.Token, next.Obtained, next.Expires
	}
	return written
}

// rotate replaces tokens that are due, until ctx ends. The configuration is then to be read again.
func (m *managed) rotate(ctx context.Context, tokens *registration.Manager) {
	tokens.Issued = m.Rotating
	tick := time.NewTicker(rotateEvery)
	defer tick.Stop()
	for {
		if c, err := config.Read(tokens.Path); err == nil { // what is wrong is said when it is read for other reasons
			changed := m.write(tokens, c)
			rotated, err := tokens.Rotate(ctx, c)
			for _, name := range rotated {
				m.log.Info("the token was replaced", "runner", name)
			}
			if err != nil && ctx.Err() == nil {
				m.log.Error("a token that is due cannot be replaced", "error", err)
			}
			if changed || len(rotated) > 0 {
				m.rotated <- struct{}{}
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
