package service

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
)

// savedServer is what another process needs to serve the same job. All of it is secret.
type savedServer struct {
	Address string `json:"address"`
	Run     string `json:"run"`
	Job     string `json:"job"`
	Runtime string `json:"runtime"`
	IDToken string `json:"id_token"`
	GitHub  string `json:"github"`
	Key     []byte `json:"key"`
}

// ErrUploading says that a server cannot be saved while an upload is incomplete.
var ErrUploading = errors.New("an upload of an artifact or a cache is incomplete")

// Save returns what Options.Saved takes, so that another process goes on with the job: a server with the same tokens. The error is
// ErrUploading while an upload is under way. What is returned is secret.
func (s *Server) Save() ([]byte, error) {
	s.artifacts.mu.Lock()
	uploads := len(s.artifacts.pending)
	s.artifacts.mu.Unlock()
	s.caches.mu.Lock()
	uploads += len(s.caches.pending)
	s.caches.mu.Unlock()
	if uploads > 0 {
		return nil, ErrUploading
	}
	t := s.door.tokens
	return json.Marshal(savedServer{Address: s.door.addr, Run: t.run, Job: t.job, Runtime: t.runtime, IDToken: t.idToken, GitHub: t.github, Key: t.key})
}

// readSaved reads what Save has returned.
func readSaved(data []byte) (*savedServer, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	var saved savedServer
	if err := dec.Decode(&saved); err != nil {
		return nil, fmt.Errorf("reading what was saved of the services of actions: %w", err)
	}
	for _, text := range []string{saved.Run, saved.Job, saved.Runtime, saved.IDToken, saved.GitHub} {
		if text == "" {
			return nil, errors.New("a token of the services of actions is missing")
		}
	}
	if len(saved.Key) != keySize {
		return nil, errors.New("the key of the services of actions is wrong")
	}
	return &saved, nil
}

func (s *savedServer) tokens() tokens {
	return tokens{run: s.Run, job: s.Job, runtime: s.Runtime, idToken: s.IDToken, github: s.GitHub, key: s.Key}
}

// listen listens on loopback: where the job knows its services from an earlier process, unless another program is there now.
func listen(saved *savedServer) (net.Listener, error) {
	if saved != nil {
		if host, _, err := net.SplitHostPort(saved.Address); err == nil && host == loopback {
			if listener, err := net.Listen("tcp", saved.Address); err == nil {
				return listener, nil
			}
		}
	}
	return net.Listen("tcp", loopback+":0")
}

const loopback = "127.0.0.1"
