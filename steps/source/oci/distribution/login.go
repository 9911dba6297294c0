package distribution

import (
	"context"
	"errors"
	"net/http"

	"github.com/rungci/rung/steps/source"
)

// ErrAnonymous says that a registry let everybody in, so that nothing is known of the name and the password.
var ErrAnonymous = errors.New("the registry asks for no password")

// Login tries a name and a password at a registry. The error of refused ones is a *download.StatusError.
func Login(ctx context.Context, o Options, registry, user, password string) error {
	o.At = &source.Location{Name: registry, URL: registry + "/login", Access: source.Access{PlainHTTP: o.At != nil && o.At.Access.PlainHTTP}}
	o.Credentials = nil
	anonymous, err := Open(ctx, o)
	if err != nil {
		return err
	}
	ping := func(r *Repository) error {
		return r.call(ctx, func(ctx context.Context) (*http.Request, error) {
			return r.request(ctx, http.MethodGet, "/v2/", nil), nil
		}, func(*http.Response) error { return nil })
	}
	asked := false
	anonymous.client.login = func(context.Context) (string, string, error) { asked = true; return user, password, nil }
	if err := ping(anonymous); err != nil {
		return err
	}
	if !asked {
		return ErrAnonymous
	}
	return nil
}
