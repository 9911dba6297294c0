package service

import (
	"crypto/hmac"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"
)

// This file is tokens for a part of what the job may do. Such a token says itself what it may, and is signed: PREFIX CLAIM "." SIGNATURE.

const (
	narrowGitHub   = "ghs_narrow-"
	narrowIdentity = "narrow-"
)

// githubFor is the token of the REST API that may do no more than the permissions say; nil does not narrow it.
func (t tokens) githubFor(permissions map[string]string) string {
	if permissions == nil {
		return t.github
	}
	claim, err := json.Marshal(permissions) // its keys are sorted
	if err != nil {
		return ""
	}
	return t.narrowed(narrowGitHub, claim)
}

// identityFor is the token with which identity tokens are asked for: for any audience, or for the one that the permissions name. It is "" where
// they hold none.
func (t tokens) identityFor(permissions map[string]string) string {
	switch audience := permissions["id-token"]; {
	case permissions == nil, audience == "write":
		return t.idToken
	case audience == "":
		return ""
	default:
		return t.narrowed(narrowIdentity, []byte(audience))
	}
}

func (t tokens) narrowed(prefix string, claim []byte) string {
	text := prefix + base64.RawURLEncoding.EncodeToString(claim)
	sum, _ := t.mac([]byte("token\x00" + text))
	return text + "." + hex.EncodeToString(sum)
}

// claimOf returns what a narrowed token says; false if it is not one of this job.
func (t tokens) claimOf(prefix, token string) ([]byte, bool) {
	rest, ok := strings.CutPrefix(token, prefix)
	if !ok {
		return nil, false
	}
	encoded, _, ok := strings.Cut(rest, ".")
	if !ok {
		return nil, false
	}
	claim, err := base64.RawURLEncoding.DecodeString(encoded)
	return claim, err == nil && hmac.Equal([]byte(token), []byte(t.narrowed(prefix, claim)))
}

// githubOf returns what the token of a request to the REST API may do, nil for all that the job may; false if it is not a token of the job.
func (t tokens) githubOf(r *http.Request) (permissions map[string]string, ok bool) {
	if holds(r, t.github) {
		return nil, true
	}
	claim, ok := t.claimOf(narrowGitHub, bearer(r))
	if !ok || json.Unmarshal(claim, &permissions) != nil {
		return nil, false
	}
	return permissions, true
}

// identityOf returns the only audience that a request may ask for, "" for any; false if it has no token of the job.
func (t tokens) identityOf(r *http.Request) (audience string, ok bool) {
	if holds(r, t.idToken) {
		return "", true
	}
	claim, ok := t.claimOf(narrowIdentity, bearer(r))
	return string(claim), ok
}
