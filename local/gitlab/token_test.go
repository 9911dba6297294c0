package gitlab

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/rungci/rung/steps/frontend/gitlabci/keyword"
	"github.com/rungci/rung/steps/frontend/gitlabci/variable"
)

func TestAnIdentityTokenCanBeCheckedWithThePublishedKey(t *testing.T) {
	var published jwks
	i := &issuer{publish: func(keys any) (string, error) { published = keys.(jwks); return "jwks.json", nil }}
	vars := variable.New()
	for name, value := range map[string]string{
		"CI_PROJECT_PATH": "group/project", "CI_COMMIT_REF_NAME": "main", "CI_SERVER_URL": "https://gitlab.example.com",
		"CI_SERVER_HOST": "gitlab.example.com", "CI_CONFIG_PATH": ".gitlab-ci.yml", "CI_COMMIT_SHA": "abc", "CI_ENVIRONMENT_NAME": "production",
	} {
		vars.Set(name, value)
	}
	token, err := i.token(keyword.IDToken{Name: "T", Audience: []string{"https://vault.example.com"}}, vars, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(token, ".")
	decode := func(text string) []byte {
		data, err := base64.RawURLEncoding.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	if len(parts) != 3 || len(published.Keys) != 1 {
		t.Fatalf("the token is %q, the keys %v", token, published)
	}
	key := published.Keys[0]
	public := &ecdsa.PublicKey{Curve: elliptic.P256(), X: new(big.Int).SetBytes(decode(key.X)), Y: new(big.Int).SetBytes(decode(key.Y))}
	sum, signature := sha256.Sum256([]byte(parts[0]+"."+parts[1])), decode(parts[2])
	if !ecdsa.Verify(public, sum[:], new(big.Int).SetBytes(signature[:keySize]), new(big.Int).SetBytes(signature[keySize:])) {
		t.Error("the signature is wrong")
	}
	var header struct{ Kid, Alg string }
	var claims map[string]any
	if err := json.Unmarshal(decode(parts[0]), &header); err != nil || header.Kid != key.ID || header.Alg != "ES256" {
		t.Errorf("the header is %+v, %v", header, err)
	}
	if err := json.Unmarshal(decode(parts[1]), &claims); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"iss": "https://gitlab.example.com", "aud": "https://vault.example.com", "project_path": "group/project", "ref": "main",
		"sub": "project_path:group/project:ref_type:branch:ref:main", "ref_path": "refs/heads/main", "environment": "production",
		"ci_config_ref_uri": "gitlab.example.com/group/project//.gitlab-ci.yml@refs/heads/main",
	} {
		if claims[name] != want {
			t.Errorf("%s is %v, not %s", name, claims[name], want)
		}
	}
	if left := time.Until(time.Unix(int64(claims["exp"].(float64)), 0)); left < time.Hour || left > time.Hour+tokenLife {
		t.Errorf("it lives %v", left)
	}
}

func TestSeveralAudiencesAreAList(t *testing.T) {
	i := &issuer{publish: func(any) (string, error) { return "", nil }}
	token, err := i.token(keyword.IDToken{Name: "T", Audience: []string{"a", "b"}}, variable.New(), 0)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	if !strings.Contains(string(body), `"aud":["a","b"]`) {
		t.Errorf("the claims are %s", body)
	}
}
