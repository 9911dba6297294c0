package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	// registryTimeout is how long a registry may take to say whether it accepts a password.
	registryTimeout = 30 * time.Second
	// maxAnswer bounds what is read of a registry's answer, in bytes.
	maxAnswer = 1 << 20
)

// checkLogin asks a registry whether it accepts a name and a password, as the OCI distribution specification and Docker's token protocol
// have it: /v2/ answers with how to log in, and there the password is shown.
func checkLogin(ctx context.Context, host, username, password string) error {
	ctx, cancel := context.WithTimeout(ctx, registryTimeout)
	defer cancel()
	base := &url.URL{Scheme: "https", Host: host, Path: "/v2/"}
	if isLoopback(host) {
		base.Scheme = "http"
	}
	answer, err := get(ctx, base, username, password, false)
	if err != nil {
		return fmt.Errorf("asking the registry %s: %w", host, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusOK {
		return nil
	}
	challenge := answer.Header.Get("WWW-Authenticate")
	scheme, rest, _ := strings.Cut(challenge, " ")
	switch {
	case answer.StatusCode != http.StatusUnauthorized:
		return fmt.Errorf("the registry %s answers %s", host, answer.Status)
	case strings.EqualFold(scheme, "Basic"):
		second, err := get(ctx, base, username, password, true)
		if err != nil {
			return fmt.Errorf("asking the registry %s: %w", host, err)
		}
		defer second.Body.Close()
		return accepted(second, host, username)
	case strings.EqualFold(scheme, "Bearer"):
		return askForToken(ctx, host, parameters(rest), username, password)
	}
	return fmt.Errorf("the registry %s asks for a log-in of the kind %q, which is not known", host, scheme)
}

// askForToken shows the password to the token server that the registry names.
func askForToken(ctx context.Context, host string, asked map[string]string, username, password string) error {
	realm, err := url.Parse(asked["realm"])
	if err != nil || realm.Host == "" || realm.Scheme != "https" && !isLoopback(realm.Host) {
		return fmt.Errorf("the registry %s names a token server that cannot be used: it must be an https address", host)
	}
	query := realm.Query()
	query.Set("account", username)
	if service := asked["service"]; service != "" {
		query.Set("service", service)
	}
	realm.RawQuery, realm.User = query.Encode(), nil
	answer, err := get(ctx, realm, username, password, true)
	if err != nil {
		return fmt.Errorf("asking the token server of %s: %w", host, err)
	}
	defer answer.Body.Close()
	if err := accepted(answer, host, username); err != nil {
		return err
	}
	var given struct {
		Token       string `json:"token"`
		AccessToken string `json:"access_token"`
	}
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxAnswer)).Decode(&given); err != nil || given.Token+given.AccessToken == "" {
		return fmt.Errorf("the token server of %s gave no token", host)
	}
	return nil
}

func accepted(answer *http.Response, host, username string) error {
	switch answer.StatusCode {
	case http.StatusOK:
		return nil
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Errorf("the registry %s does not accept the password of %s; check both, and whether a token has expired", host, username)
	}
	return fmt.Errorf("the registry %s answers %s", host, answer.Status)
}

// get sends one request, and shows the password only where it is said so. Redirects are not followed: the password is for this server.
func get(ctx context.Context, to *url.URL, username, password string, show bool) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, to.String(), nil)
	if err != nil {
		return nil, err
	}
	if show {
		request.SetBasicAuth(username, password)
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Do(request)
	var wrapped *url.Error
	if errors.As(err, &wrapped) { // its text repeats the address
		err = wrapped.Err
	}
	return answer, err
}

// parameters reads the k="v" pairs of a challenge.
func parameters(text string) map[string]string {
	found := map[string]string{}
	for text != "" {
		name, rest, ok := strings.Cut(text, "=")
		if !ok {
			break
		}
		name = strings.ToLower(strings.Trim(name, " ,"))
		if strings.HasPrefix(rest, `"`) {
			var quoted string
			quoted, text, _ = strings.Cut(rest[1:], `"`)
			found[name] = quoted
			continue
		}
		found[name], text, _ = strings.Cut(rest, ",")
	}
	return found
}

// isLoopback reports whether a host is this machine, to which Docker speaks without TLS.
func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
