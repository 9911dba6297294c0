package gitlab

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"sync"
	"time"

	"github.com/rungci/rung/steps/frontend/gitlabci/keyword"
	"github.com/rungci/rung/steps/frontend/gitlabci/variable"
)

const (
	// tokenLife is how long an identity token lives beyond the job's timeout.
	tokenLife = 5 * time.Minute
	// keySize is the length of a coordinate of the curve, in bytes.
	keySize = 32
)

// issuer signs the identity tokens of a run, with a key of its own: GitLab's is GitLab's. Who shall accept them is given the public key,
// which stands in .rung/jwks.json.
type issuer struct {
	once sync.Once
	key  *ecdsa.PrivateKey
	id   string
	file string
	err  error
	// publish writes the public keys and returns the file.
	publish func(jwks any) (string, error)
}

// jwks is a set of public keys, as a server has it under /oauth/discovery/keys.
type jwks struct {
	Keys []jwk `json:"keys"`
}

type jwk struct {
	Type      string `json:"kty"`
	Curve     string `json:"crv"`
	Use       string `json:"use"`
	Algorithm string `json:"alg"`
	ID        string `json:"kid"`
	X         string `json:"x"`
	Y         string `json:"y"`
}

// open makes the key, when a job first asks for a token.
func (i *issuer) open() error {
	i.once.Do(func() {
		if i.key, i.err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); i.err != nil {
			return
		}
		point, err := i.key.PublicKey.Bytes() // 4, X, Y
		if err != nil {
			i.err = err
			return
		}
		sum := sha256.Sum256(point)
		i.id = encoded(sum[:])
		public := jwk{Type: "EC", Curve: "P-256", Use: "sig", Algorithm: "ES256", ID: i.id, X: encoded(point[1 : 1+keySize]), Y: encoded(point[1+keySize:])}
		i.file, i.err = i.publish(jwks{[]jwk{public}})
	})
	return i.err
}

func encoded(data []byte) string { return base64.RawURLEncoding.EncodeToString(data) }

// token makes the identity token of a job, with the claims that GitLab makes of the job's variables.
func (i *issuer) token(t keyword.IDToken, vars *variable.Collection, timeout time.Duration) (string, error) {
	if err := i.open(); err != nil {
		return "", fmt.Errorf("creating a key for the token %s: %w", t.Name, err)
	}
	var audience any = t.Audience
	if len(t.Audience) == 1 {
		audience = t.Audience[0]
	}
	now := time.Now()
	claims := tokenClaims(vars)
	claims["aud"] = audience
	claims["iat"], claims["nbf"] = now.Unix(), now.Add(-5*time.Second).Unix()
	claims["exp"] = now.Add(timeout + tokenLife).Unix()
	claims["jti"] = strings.ToLower(rand.Text())
	header, err := json.Marshal(map[string]string{"alg": "ES256", "kid": i.id, "typ": "JWT"})
	if err != nil {
		return "", err
	}
	body, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	signed := encoded(header) + "." + encoded(body)
	sum := sha256.Sum256([]byte(signed))
	r, s, err := ecdsa.Sign(rand.Reader, i.key, sum[:])
	if err != nil {
		return "", err
	}
	return signed + "." + encoded(append(fixed(r), fixed(s)...)), nil
}

func fixed(n *big.Int) []byte { return n.FillBytes(make([]byte, keySize)) }

// tokenVariables are GitLab's claims that are variables of the job.
var tokenVariables = map[string]string{
	"namespace_id": "CI_PROJECT_NAMESPACE_ID", "namespace_path": "CI_PROJECT_NAMESPACE",
	"project_id": "CI_PROJECT_ID", "project_path": "CI_PROJECT_PATH", "project_visibility": "CI_PROJECT_VISIBILITY",
	"user_id": "GITLAB_USER_ID", "user_login": "GITLAB_USER_LOGIN", "user_email": "GITLAB_USER_EMAIL",
	"pipeline_id": "CI_PIPELINE_ID", "pipeline_source": "CI_PIPELINE_SOURCE", "job_id": "CI_JOB_ID",
	"ref": "CI_COMMIT_REF_NAME", "sha": "CI_COMMIT_SHA", "ref_protected": "CI_COMMIT_REF_PROTECTED",
	"runner_id": "CI_RUNNER_ID", "iss": "CI_SERVER_URL",
	"environment": "CI_ENVIRONMENT_NAME", "deployment_tier": "CI_ENVIRONMENT_TIER", "environment_action": "CI_ENVIRONMENT_ACTION",
}

func tokenClaims(vars *variable.Collection) map[string]any {
	claims := map[string]any{"runner_environment": "self-hosted", "user_access_level": "owner"}
	for claim, name := range tokenVariables {
		if value, ok := vars.Lookup(name); ok && value != "" {
			claims[claim] = value
		}
	}
	if _, deploys := claims["environment"]; deploys {
		claims["environment_protected"] = "false"
	}
	kind, path := "branch", "refs/heads/"
	if tag, _ := vars.Lookup("CI_COMMIT_TAG"); tag != "" {
		kind, path = "tag", "refs/tags/"
	}
	ref, _ := vars.Lookup("CI_COMMIT_REF_NAME")
	project, _ := vars.Lookup("CI_PROJECT_PATH")
	host, _ := vars.Lookup("CI_SERVER_HOST")
	file, _ := vars.Lookup("CI_CONFIG_PATH")
	claims["ref_type"], claims["ref_path"] = kind, path+ref
	claims["sub"] = fmt.Sprintf("project_path:%s:ref_type:%s:ref:%s", project, kind, ref)
	claims["ci_config_ref_uri"] = fmt.Sprintf("%s/%s//%s@%s%s", host, project, file, path, ref)
	if sha, _ := vars.Lookup("CI_COMMIT_SHA"); sha != "" {
		claims["ci_config_sha"] = sha
	}
	return claims
}
