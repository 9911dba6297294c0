package registration

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/manager/gitlab"
)

// noRotation is the feature flag that keeps tokens until they end.
const noRotation = "FF_DISABLE_AUTOMATIC_TOKEN_ROTATION"

// RotateAt is when the entry's token is replaced: after three quarters of its life. It is zero where that never happens: the token has no end, the
// file does not say when it was issued, or a feature flag forbids it.
func RotateAt(r *config.Runner) time.Time {
	if r.TokenExpiresAt.IsZero() || r.TokenObtainedAt.IsZero() || r.FeatureFlags[noRotation] {
		return time.Time{}
	}
	life := r.TokenExpiresAt.Sub(r.TokenObtainedAt)
	return r.TokenObtainedAt.Add(life / 4 * 3)
}

// Rotate replaces the tokens of the configuration that are due, in the file. It returns the names of their entries; the caller reads the file
// again, as after any other change. A token that could not be replaced comes with an error, and the others are replaced nevertheless.
func (m *Manager) Rotate(ctx context.Context, c *config.Config) (rotated []string, err error) {
	for i := range c.Runners {
		r := &c.Runners[i]
		if at := RotateAt(r); at.IsZero() || m.now().Before(at) {
			continue
		}
		if rerr := m.ResetToken(ctx, r, ""); rerr != nil {
			err = errors.Join(err, fmt.Errorf("the token of %q was not replaced: %w", r.Name, rerr))
			continue
		}
		rotated = append(rotated, r.Name)
	}
	return rotated, err
}

// ResetToken replaces the entry's token, in GitLab and in the file; the old one is not valid any more. It is asked for with the token itself, or
// with a user's personal access token where that is not empty. r gets the new token.
func (m *Manager) ResetToken(ctx context.Context, r *config.Runner, personal string) error {
	client, err := m.client(r)
	if err != nil {
		return err
	}
	issued := false
	var unsaved error
	err = config.Edit(m.Path, func(text []byte) ([]byte, error) {
		if err := writable(m.Path, text); err != nil {
			return nil, err
		}
		index, err := m.find(text, r)
		if err != nil {
			return nil, err
		}
		if _, err := config.SetToken(text, index, config.Token{Token: "trial"}); err != nil { // before the old one is lost
			return nil, err
		}
		var known *gitlab.Registered
		if personal == "" {
			known, err = client.ResetToken(ctx, gitlab.Runner{Token: r.Token})
		} else {
			known, err = client.ResetTokenOf(ctx, r.ID, personal)
		}
		if err != nil {
			return nil, err
		}
		issued = true
		token := config.Token{Token: known.Token, Obtained: m.now()}
		if known.Expires != nil {
			token.Expires = *known.Expires
		}
		if m.Issued != nil {
			unsaved = m.Issued(r, token)
		}
		r.Token, r.TokenObtainedAt, r.TokenExpiresAt = token.Token, token.Obtained, token.Expires
		return config.SetToken(text, index, token)
	})
	if err == nil && unsaved != nil {
		return fmt.Errorf("the token of %q was replaced; a crash would lose the jobs that run now: %w", r.Name, unsaved)
	}
	switch {
	case err == nil || !issued || m.Issued == nil:
	case unsaved == nil:
		return fmt.Errorf("GitLab has issued a new token, which cannot be written to %s: %w; it is kept in the state folder: rung run uses it, and writes it there as soon as it can", m.Path, err)
	default:
		return fmt.Errorf("GitLab has issued a new token, which can be written neither to %s (%w) nor to the state folder (%w): it is lost when this process ends", m.Path, err, unsaved)
	}
	if err != nil && issued {
		return fmt.Errorf("GitLab has issued a new token, which is lost: reset the token again in GitLab, and write it to %s: %w", m.Path, err)
	}
	return err
}

// Replace writes a token to the file that GitLab has issued for the entry before, in a process that ended too early to write it.
func (m *Manager) Replace(r *config.Runner, t config.Token) error {
	return config.Edit(m.Path, func(text []byte) ([]byte, error) {
		index, err := m.find(text, r)
		if err != nil {
			return nil, err
		}
		return config.SetToken(text, index, t)
	})
}
