package registration

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/manager/gitlab"
)

// Request is a runner to be registered.
type Request struct {
	// Values are those of the entry. url, token (or RegistrationToken) and executor must be there.
	Values config.Values
	// RegistrationToken makes a runner. One that is an authentication token is taken as that, and Server ignored.
	RegistrationToken string
	// Server is what only a registration token can say of a runner; its Token and Info are not used.
	Server gitlab.Registration
	// Leave keeps the runner in GitLab if the entry cannot be written.
	Leave bool
}

// Result is an entry that was added.
type Result struct {
	Runner config.Runner
	// Again says that the file had an entry with this token already.
	Again bool
	// Ignored says that Server was ignored, as the token is an authentication token.
	Ignored bool
}

// ServerError says that a request has what only GitLab decides of runners with an authentication token.
type ServerError struct{}

func (*ServerError) Error() string {
	return "tags, access level, timeout, pausing and notes of a runner with an authentication token are set in GitLab, not here"
}

// empty reports whether nothing is asked of GitLab that it would not do anyway.
func empty(r gitlab.Registration) bool {
	return !r.Paused && r.Locked && r.AccessLevel == "" && !r.RunUntagged && r.TagList == "" && r.MaximumTimeout == 0 && r.MaintenanceNote == ""
}

// Register asks GitLab to know this machine as a runner, and adds an entry to the file, whose other bytes stay as they are.
func (m *Manager) Register(ctx context.Context, q Request) (*Result, error) {
	result := &Result{}
	token := text(q.Values, "token")
	if token == "" && IsAuthenticationToken(q.RegistrationToken) {
		token, q.RegistrationToken = q.RegistrationToken, ""
		result.Ignored = !empty(q.Server)
	} else if token != "" && !empty(q.Server) {
		return nil, &ServerError{}
	}
	entry := config.Runner{
		URL: text(q.Values, "url"), Token: token, Name: text(q.Values, "name"), Executor: text(q.Values, "executor"), Shell: text(q.Values, "shell"),
		TLSCAFile: text(q.Values, "tls-ca-file"), TLSCertFile: text(q.Values, "tls-cert-file"), TLSKeyFile: text(q.Values, "tls-key-file"),
	}
	if entry.URL == "" || token == "" && q.RegistrationToken == "" || entry.Executor == "" {
		return nil, errors.New("a runner needs a url, a token and an executor")
	}
	made := false
	err := config.Edit(m.Path, func(text []byte) ([]byte, error) {
		if err := writable(m.Path, text); err != nil {
			return nil, err
		}
		known, err := m.introduce(ctx, &entry, q)
		if err != nil {
			return nil, err
		}
		made = true
		entry.ID, entry.Token, entry.TokenObtainedAt = known.ID, known.Token, m.now()
		if known.Expires != nil {
			entry.TokenExpiresAt = *known.Expires
		}
		if _, err := m.find(text, &entry); err == nil {
			result.Again = true
		}
		return add(text, q.Values, &entry)
	})
	if err == nil {
		result.Runner = entry
		return result, nil
	}
	if made && !q.Leave {
		if lerr := m.leave(context.WithoutCancel(ctx), &entry); lerr != nil {
			err = errors.Join(err, fmt.Errorf("and GitLab still has the runner %d: %w", entry.ID, lerr))
		}
	}
	return nil, err
}

// introduce verifies or registers.
func (m *Manager) introduce(ctx context.Context, entry *config.Runner, q Request) (*gitlab.Registered, error) {
	if entry.Token != "" {
		known, err := m.verify(ctx, entry)
		if err == nil && known.Token == "" {
			known.Token = entry.Token
		}
		return known, err
	}
	client, err := m.client(entry)
	if err != nil {
		return nil, err
	}
	server := q.Server
	server.Token, server.Description = q.RegistrationToken, entry.Name
	server.RunUntagged = server.RunUntagged || server.TagList == ""
	known, err := client.Register(ctx, server)
	if gitlab.Status(err) == http.StatusGone {
		return nil, fmt.Errorf("registration tokens are turned off in this GitLab: create a runner there, and use its token: %w", err)
	}
	return known, err
}

// add writes the entry behind what is there.
func add(before []byte, values config.Values, r *config.Runner) ([]byte, error) {
	all := config.Values{}
	for name, value := range values {
		all[name] = value
	}
	all["id"], all["token"], all["token_obtained_at"], all["token_expires_at"] = r.ID, r.Token, r.TokenObtainedAt, r.TokenExpiresAt
	entry, err := config.Entry(all)
	if err != nil {
		return nil, err
	}
	if len(before) == 0 {
		before = []byte("concurrent = 1\n")
	}
	return config.Add(before, entry), nil
}

func text(values config.Values, name string) string {
	s, _ := values[name].(string)
	return s
}
