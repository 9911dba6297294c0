// Package docker is the code of builtin://docker/login and builtin://docker/run: registries and containers for steps, through the docker
// or podman program of the environment.
package docker

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// dockerHub is the name that Docker keeps the credentials of its own registry under.
const dockerHub = "https://index.docker.io/v1/"

// configuration is Docker's config.json. What of it is not about credentials is kept as it is.
type configuration map[string]json.RawMessage

// auth is the entry of a registry.
type auth struct {
	Auth string `json:"auth"`
}

// readConfiguration reads the configuration in a folder. A folder that has none gives an empty one.
func readConfiguration(folder string) (configuration, error) {
	if folder == "" {
		return configuration{}, nil
	}
	text, err := os.ReadFile(filepath.Join(folder, "config.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return configuration{}, nil
	}
	if err != nil {
		return nil, err
	}
	return parseConfiguration(text)
}

// parseConfiguration reads the text of a configuration. Its errors show nothing of it.
func parseConfiguration(text []byte) (configuration, error) {
	c := configuration{}
	if err := json.Unmarshal(text, &c); err != nil {
		return nil, errors.New("it is not a JSON object as Docker's config.json is")
	}
	if _, err := c.auths(); err != nil {
		return nil, err
	}
	return c, nil
}

func (c configuration) auths() (map[string]json.RawMessage, error) {
	auths := map[string]json.RawMessage{}
	if raw, ok := c["auths"]; ok {
		if err := json.Unmarshal(raw, &auths); err != nil {
			return nil, errors.New("its auths are not a JSON object")
		}
	}
	return auths, nil
}

// add puts entries for registries over those that are there.
func (c configuration) add(entries map[string]json.RawMessage) error {
	auths, err := c.auths()
	if err != nil {
		return err
	}
	for name, entry := range entries {
		auths[name] = entry
	}
	raw, err := json.Marshal(auths)
	c["auths"] = raw
	return err
}

// entry is what is written for a name and a password.
func entry(username, password string) (json.RawMessage, error) {
	return json.Marshal(auth{base64.StdEncoding.EncodeToString([]byte(username + ":" + password))})
}

// write writes the configuration into a new folder, which only this user may enter.
func (c configuration) write(parent string) (folder string, err error) {
	if folder, err = os.MkdirTemp(parent, "docker-"); err != nil {
		return "", err
	}
	text, err := json.MarshalIndent(c, "", "  ")
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "config.json"), text, 0o600)
	}
	if err != nil {
		return "", fmt.Errorf("writing Docker's configuration: %w", err)
	}
	return folder, nil
}
