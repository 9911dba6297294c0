package gitlab

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/rungci/rung/steps/containers"
)

// parseAuthConfig reads credentials as Docker's configuration holds them. What is no such text gives none.
func parseAuthConfig(text string) []containers.Registry {
	var config struct {
		Auths map[string]struct{ Auth, Username, Password string }
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
		if a.Username == "" && a.Password == "" {
			continue
		}
		name := strings.TrimPrefix(strings.TrimPrefix(host, "https://"), "http://")
		name, _, _ = strings.Cut(name, "/")
		out = append(out, containers.Registry{Host: name, Username: a.Username, Password: a.Password})
	}
	return out
}
