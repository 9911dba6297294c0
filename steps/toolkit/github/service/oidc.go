package service

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"math/big"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	// identityLife is how long a token of OpenID Connect counts: as long as GitHub's.
	identityLife = 5 * time.Minute
	keyBits      = 2048
)

// identity signs tokens of OpenID Connect. Their issuer is this server: whoever is to trust them has to be told so.
type identity struct {
	door    door
	facts   map[string]string // Options.GitHub
	granted bool              // the job has id-token: write

	once sync.Once // making a key takes a tenth of a second, and most jobs need none
	key  *rsa.PrivateKey
	id   string
	err  error
}

func (i *identity) load() (*rsa.PrivateKey, string, error) {
	i.once.Do(func() {
		if i.key, i.err = rsa.GenerateKey(rand.Reader, keyBits); i.err == nil {
			sum := sha256.Sum256(i.key.N.Bytes())
			i.id = hex.EncodeToString(sum[:8])
		}
	})
	return i.key, i.id, i.err
}

// identityClaims are claims that are texts of the github context, by their names there.
var identityClaims = []string{
	"actor", "actor_id", "base_ref", "environment", "event_name", "head_ref", "job_workflow_ref", "job_workflow_sha", "ref", "ref_protected", "ref_type",
	"repository", "repository_id", "repository_owner", "repository_owner_id", "repository_visibility", "run_attempt", "run_id", "run_number",
	"sha", "workflow", "workflow_ref", "workflow_sha",
}

func (i *identity) routes(mux *http.ServeMux) {
	mux.HandleFunc("GET /oidc/token", i.serve)
	// What a verifier reads holds no secret, and verifiers have no token.
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, r *http.Request) {
		writeJSON(w, http.StatusOK, map[string]any{
			"issuer": i.door.base, "jwks_uri": i.door.base + "/.well-known/jwks", "claims_supported": append([]string{"sub", "aud", "exp", "iat", "iss", "jti", "nbf"}, identityClaims...),
			"response_types_supported": []string{"id_token"}, "subject_types_supported": []string{"public", "pairwise"},
			"id_token_signing_alg_values_supported": []string{"RS256"}, "scopes_supported": []string{"openid"},
		})
	})
	mux.HandleFunc("GET /.well-known/jwks", func(w http.ResponseWriter, r *http.Request) {
		key, id, err := i.load()
		if err != nil {
			writeTwirpError(w, err)
			return
		}
		encode := base64.RawURLEncoding.EncodeToString
		writeJSON(w, http.StatusOK, map[string]any{"keys": []map[string]string{{
			"kty": "RSA", "alg": "RS256", "use": "sig", "kid": id, "n": encode(key.N.Bytes()), "e": encode(big.NewInt(int64(key.E)).Bytes()),
		}}})
	})
}

func (i *identity) serve(w http.ResponseWriter, r *http.Request) {
	only, ok := i.door.tokens.identityOf(r)
	audience := r.URL.Query().Get("audience")
	if audience == "" {
		audience = only
	}
	switch {
	case !ok:
		writeTwirpError(w, refuse("unauthenticated", "this is not the ACTIONS_ID_TOKEN_REQUEST_TOKEN of this job"))
		return
	case !i.granted:
		writeTwirpError(w, refuse("permission_denied", "the job has no permission for this: set permissions: {id-token: write}"))
		return
	}
	if only != "" && audience != only {
		writeTwirpError(w, refuse("permission_denied", "the step may have identity tokens for one other audience only: its permissions say so"))
		return
	}
	key, id, err := i.load()
	if err != nil {
		writeTwirpError(w, err)
		return
	}
	token, err := signJWT(map[string]any{"typ": "JWT", "alg": "RS256", "kid": id}, i.claims(audience), func(text []byte) ([]byte, error) {
		sum := sha256.Sum256(text)
		return rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	})
	if err != nil {
		writeTwirpError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{"count": len(token), "value": token})
}

// claims says what the job is, as GitHub does.
func (i *identity) claims(audience string) map[string]any {
	facts := i.facts
	repository := facts["repository"]
	owner, _, _ := strings.Cut(repository, "/")
	if audience == "" {
		audience = "https://github.com/" + owner
	}
	now := time.Now()
	claims := map[string]any{
		"iss": i.door.base, "aud": audience, "jti": newUUID(), "iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(identityLife).Unix(),
		"repository_owner": owner, "runner_environment": "self-hosted", "ref_protected": "false", "repository_visibility": "private",
		"job_workflow_ref": facts["workflow_ref"], "job_workflow_sha": facts["workflow_sha"],
	}
	for _, name := range identityClaims {
		if text, ok := facts[name]; ok {
			claims[name] = text
		}
	}
	subject := "ref:" + facts["ref"]
	if facts["environment"] != "" {
		subject = "environment:" + strings.ReplaceAll(facts["environment"], ":", "%3A")
	} else if strings.HasPrefix(facts["event_name"], "pull_request") && facts["event_name"] != "pull_request_target" {
		subject = "pull_request"
	}
	claims["sub"] = "repo:" + repository + ":" + subject
	return claims
}
