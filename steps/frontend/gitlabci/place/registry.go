package place

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/rungci/rung/steps/containers"
	"github.com/rungci/rung/steps/source/credentials"
)

// ParseAuthConfig reads credentials as Docker's configuration holds them. What is no such text gives none.
func ParseAuthConfig(text string) []containers.Registry {
	var config struct {
		Auths map[string]struct{ Auth, Username, Password, IdentityToken string }
	}
	if json.Unmarshal([]byte(text), &config) != nil {
		return nil
	}
	var out []containers.Registry
	for _, host := range slices.Sorted(maps.Keys(config.Auths)) {
		a := config.Auths[host]
		if decoded, err := base64.StdEncoding.DecodeString(a.Auth); err == nil && a.Auth != "" {
			a.Username, a.Password, _ = strings.Cut(string(decoded), ":")
		}
		if a.IdentityToken != "" {
			a.Username, a.Password = credentials.TokenUser, a.IdentityToken
		}
		if a.Username == "" && a.Password == "" {
			continue
		}
		name := strings.TrimPrefix(strings.TrimPrefix(host, "https://"), "http://")
		name, path, _ := strings.Cut(name, "/")
		if path = strings.Trim(path, "/"); path == "v1" || path == "v2" { // of the API, as Docker writes it
			path = ""
		}
		out = append(out, containers.Registry{Host: name, Path: path, Username: a.Username, Password: a.Password})
	}
	return out
}

// shownAuthConfig is what may be shown of Docker's configuration. Where it holds no credentials, what it says of programs that hold them: what pulls images says
// that such programs are not run. Where it cannot be read, blanks with a mistake in the same place, so that what pulls images says where. "" otherwise.
func shownAuthConfig(text string) string {
	var config struct {
		CredsStore  string            `json:"credsStore,omitempty"`
		CredHelpers map[string]string `json:"credHelpers,omitempty"`
	}
	var syntax *json.SyntaxError
	if err := json.Unmarshal([]byte(text), &config); errors.As(err, &syntax) && strings.TrimSpace(text) != "" {
		return strings.Repeat(" ", max(0, int(syntax.Offset)-1)) + "!"
	}
	if len(ParseAuthConfig(text)) > 0 || config.CredsStore == "" && len(config.CredHelpers) == 0 {
		return ""
	}
	out, err := json.Marshal(config)
	if err != nil {
		return ""
	}
	return string(out)
}
