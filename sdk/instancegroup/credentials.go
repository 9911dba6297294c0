package instancegroup

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/ssh"
)

// Credentials are what instances are reached with.
type Credentials struct {
	// Connector is that of every ConnectInfo: the settings', with the key.
	Connector ConnectorConfig
	// PublicKey is the line for authorized_keys, and for the cloud; empty where there is no key.
	PublicKey string
	// Generated says that the key was made here: a group that gives it to the cloud takes it away in Shutdown.
	Generated bool
}

// NewCredentials are those that the settings ask for: with UseStaticCredentials the password and the key that are given, which instances know already, else the key that is
// given, or one that is made. A plugin puts PublicKey where new instances find it.
func NewCredentials(settings Settings) (Credentials, error) {
	c := Credentials{Connector: settings.ConnectorConfig}
	given := len(c.Connector.Key) > 0
	switch {
	case c.Connector.UseStaticCredentials && !given && c.Connector.Password == "":
		return c, errors.New("use_static_credentials needs a password, or a key in key_path, in connector_config")
	case c.Connector.UseStaticCredentials && !given:
		return c, nil
	case !given:
		_, private, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			return c, err
		}
		block, err := ssh.MarshalPrivateKey(private, settings.Owner)
		if err != nil {
			return c, err
		}
		c.Connector.Key, c.Generated = pem.EncodeToMemory(block), true
	}
	signer, err := ssh.ParsePrivateKey(c.Connector.Key)
	if err != nil {
		return c, fmt.Errorf("the key in key_path of connector_config: %w", err)
	}
	c.PublicKey = strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey())))
	return c, nil
}

// keyRecord is the record of a generated key.
const keyRecord = "key"

// keptKey is that record, as the SDK for Python has it, too.
type keptKey struct {
	Private string `json:"private"`
	Public  string `json:"public"`
}

// keptCredentials are NewCredentials with the key that an earlier process has generated: its machines know no other one.
func keptCredentials(settings Settings) (Credentials, error) {
	var kept keptKey
	err := Load(settings, keyRecord, &kept)
	if given := settings.ConnectorConfig; err != nil || len(given.Key) > 0 || given.UseStaticCredentials || kept.Private == "" {
		c, failed := NewCredentials(settings)
		if failed == nil && c.Generated { // in place of a damaged one, too: no machine can be reached with that
			failed = Save(settings, keyRecord, keptKey{string(c.Connector.Key), c.PublicKey})
		}
		return c, failed
	}
	settings.ConnectorConfig.Key = []byte(kept.Private)
	c, err := NewCredentials(settings)
	c.Generated = true
	return c, err
}
