package secrets

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/rungci/rung/steps/catalog/program"
	"github.com/rungci/rung/steps/catalog/selection"
	"github.com/rungci/rung/steps/catalog/transfer"
)

const (
	// maxAnswer bounds an answer, in bytes. Vault itself takes at most 32 MiB, and its storage 1 MiB of a secret.
	maxAnswer = 8 << 20

	tokenHeader     = "X-Vault-Token"
	namespaceHeader = "X-Vault-Namespace"
)

// vault speaks with a server: the HTTP API, version 1.
type vault struct {
	base      *url.URL
	namespace string
	client    transfer.Client
	hops      hops

	jwt     string // kept for clean alone
	token   string
	keep    bool          // the token stays, or is gone already
	expires time.Duration // when the token does by itself
}

// shown is the server's address as it can be shown.
func (v *vault) shown() string { return transfer.Address(v.base.String()) }

// clean takes what was logged in with out of an error, should a server repeat it.
func (v *vault) clean(err error) error {
	text := err.Error()
	for _, secret := range []string{v.jwt, v.token} {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "[MASKED]")
		}
	}
	if text == err.Error() {
		return err
	}
	return errors.New(text)
}

// failed is the error as it can be shown, which says whether the server is to blame.
func (v *vault) failed(err error) error {
	var status *transfer.StatusError
	if errors.As(err, new(*transfer.NetworkError)) || errors.As(err, &status) && status.Temporary() {
		return &program.UnavailableError{Err: v.clean(err)}
	}
	return v.clean(err)
}

// login gets a token for an identity token.
func (v *vault) login(ctx context.Context, mount, role, jwt string) error {
	type credentials struct {
		Role string `json:"role,omitempty"` // without one, the server's default counts
		JWT  string `json:"jwt"`
	}
	body, err := json.Marshal(credentials{role, strings.TrimSpace(jwt)})
	if err != nil {
		return err
	}
	var answer struct {
		Auth *struct {
			ClientToken   string          `json:"client_token"`
			TokenType     string          `json:"token_type"`
			LeaseDuration float64         `json:"lease_duration"` // seconds
			MFA           json.RawMessage `json:"mfa_requirement"`
		} `json:"auth"`
	}
	if err := v.do(ctx, http.MethodPost, body, &answer, "auth", mount, "login"); err != nil {
		if transfer.IsStatus(err, http.StatusNotFound) {
			return fmt.Errorf("%w; is auth_path where the server has JWT authentication?", err)
		}
		return err
	}
	auth := answer.Auth
	switch {
	case auth != nil && auth.ClientToken == "" && len(auth.MFA) > 0 && string(auth.MFA) != "null":
		return errors.New("the server asks for a second factor, which a job has not")
	case auth == nil || auth.ClientToken == "":
		return errors.New("the server answers without a token; is it a Vault server?")
	}
	v.token = auth.ClientToken
	v.keep = auth.TokenType == "batch" // which cannot be revoked, and is short-lived instead
	v.expires = time.Duration(auth.LeaseDuration * float64(time.Second))
	return nil
}

// fields reads a secret.
func (v *vault) fields(ctx context.Context, engine, mount, path string) (map[string]json.RawMessage, error) {
	var answer struct {
		LeaseID string          `json:"lease_id"`
		Data    json.RawMessage `json:"data"`
	}
	parts := []string{mount, path}
	if engine == "kv-v2" {
		parts = []string{mount, "data", path}
	}
	if err := v.do(ctx, http.MethodGet, nil, &answer, parts...); err != nil {
		switch {
		case transfer.IsStatus(err, http.StatusForbidden):
			return nil, fmt.Errorf("%w; the role's policies must allow to read it", err)
		case transfer.IsStatus(err, http.StatusNotFound):
			return nil, fmt.Errorf("%w; there is no such secret, or its latest version is deleted", err)
		}
		return nil, err
	}
	// A secret that is made on demand ends with the token that it was made for.
	v.keep = v.keep || answer.LeaseID != ""
	data := answer.Data
	if engine == "kv-v2" {
		var versioned struct {
			Data     json.RawMessage `json:"data"`
			Metadata json.RawMessage `json:"metadata"`
		}
		if err := json.Unmarshal(data, &versioned); err != nil || versioned.Metadata == nil {
			return nil, errors.New("the answer is not that of the engine kv-v2; is it kv-v1?")
		}
		data = versioned.Data
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil || fields == nil {
		return nil, errors.New("the server answers without the values of a secret")
	}
	return fields, nil
}

// logout revokes a token that nothing needs any more, also when the step is being stopped. That it cannot is no reason to fail: the token expires.
func (v *vault) logout(ctx context.Context, call *program.Call) {
	if v.keep {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), revokeLimit)
	defer cancel()
	if err := v.do(ctx, http.MethodPost, nil, nil, "auth", "token", "revoke-self"); err != nil {
		selection.Warn(call, "the token is not revoked, and expires in %v: %v", v.expires, v.clean(err))
	}
	v.keep = true
}

// do makes a request below /v1/, and reads the answer into a value; nil wants none.
func (v *vault) do(ctx context.Context, method string, body []byte, into any, parts ...string) error {
	header := http.Header{"Accept": {"application/json"}, "X-Vault-Request": {"true"}}
	if v.token != "" {
		header.Set(tokenHeader, v.token)
	}
	if v.namespace != "" {
		header.Set(namespaceHeader, v.namespace)
	}
	r := transfer.Request{Method: method, URL: v.url(parts), Header: header, Secret: []string{tokenHeader}}
	if body != nil {
		header.Set("Content-Type", "application/json")
		r.Body = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		r.Size = int64(len(body))
	}
	resp, err := v.client.Do(ctx, r)
	if err != nil {
		if to := v.hops.refused; to != "" {
			return fmt.Errorf("%w; it sends us on to %s: give that address as server", err, to)
		}
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return fmt.Errorf("reading the answer: %w", err)
	case into == nil:
		return nil
	case len(text) > maxAnswer:
		return fmt.Errorf("the answer is longer than %d bytes", maxAnswer)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return errors.New("the answer is not JSON; is this the address of a Vault server?") // the parser's error may quote a secret
	}
	return nil
}

// url is the address of a path below /v1/. Slashes in its parts stay: mounts and secrets have them.
func (v *vault) url(parts []string) string {
	segments := []string{"v1"}
	for _, part := range parts {
		for segment := range strings.SplitSeq(part, "/") {
			segments = append(segments, url.PathEscape(segment))
		}
	}
	return strings.TrimRight(v.base.String(), "/") + "/" + strings.Join(segments, "/")
}

// hops follows no redirect to another server: identity tokens and tokens are for the server that the job names.
type hops struct {
	http.RoundTripper
	refused string // the server that was not gone to; "" is none
}

// RoundTrip makes a request. A redirect to another server becomes an answer that goes nowhere.
func (h *hops) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := h.RoundTripper.RoundTrip(r)
	if err != nil || resp.StatusCode < 300 || resp.StatusCode > 399 {
		return resp, err
	}
	to, err := resp.Location()
	if err == nil && to.Host == r.URL.Host && to.Scheme == r.URL.Scheme {
		return resp, nil
	}
	h.refused = "an address that cannot be read"
	if err == nil {
		h.refused = to.Scheme + "://" + to.Host
	}
	resp.Header.Del("Location")
	return resp, nil
}
