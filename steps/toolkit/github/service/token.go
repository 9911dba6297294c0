package service

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	// tokenLife is how long tokens of a job count: longer than any job, because it is the server's end that ends them.
	tokenLife = 7 * 24 * time.Hour
	// keySize is how long the key of the tokens is, in bytes.
	keySize = 32
	// addressLife is how long a signed address counts.
	addressLife = time.Hour
)

// tokens are what one job is known by. They are made up for it, and no other server knows them.
type tokens struct {
	run, job string // the IDs that artifacts are asked for with
	runtime  string // ACTIONS_RUNTIME_TOKEN
	idToken  string // ACTIONS_ID_TOKEN_REQUEST_TOKEN
	github   string // GITHUB_TOKEN
	key      []byte // signs addresses and the tokens
}

func newTokens(ref string) (tokens, error) {
	t := tokens{run: newUUID(), job: newUUID(), github: "ghs_" + rand.Text() + rand.Text(), key: make([]byte, keySize)}
	rand.Read(t.key)
	now := time.Now()
	claims := map[string]any{
		"iss": "rung", "jti": newUUID(), "nbf": now.Unix(), "iat": now.Unix(), "exp": now.Add(tokenLife).Unix(),
		"scp": "Actions.GenericRead Actions.Results:" + t.run + ":" + t.job,
		// What some clients of caches read their scopes from; 3 is to read and to write.
		"ac": fmt.Sprintf(`[{"Scope":%q,"Permission":3}]`, ref),
	}
	var err error
	if t.runtime, err = signJWT(map[string]any{"typ": "JWT", "alg": "HS256"}, claims, t.mac); err != nil {
		return t, err
	}
	claims["scp"], claims["jti"] = "Actions.IdToken:"+t.run+":"+t.job, newUUID()
	t.idToken, err = signJWT(map[string]any{"typ": "JWT", "alg": "HS256"}, claims, t.mac)
	return t, err
}

func (t tokens) mac(text []byte) ([]byte, error) {
	mac := hmac.New(sha256.New, t.key)
	mac.Write(text)
	return mac.Sum(nil), nil
}

// signJWT makes a JSON web token.
func signJWT(header, claims map[string]any, sign func([]byte) ([]byte, error)) (string, error) {
	var parts [2]string
	for i, part := range []map[string]any{header, claims} {
		text, err := json.Marshal(part)
		if err != nil {
			return "", err
		}
		parts[i] = base64.RawURLEncoding.EncodeToString(text)
	}
	text := parts[0] + "." + parts[1]
	signature, err := sign([]byte(text))
	if err != nil {
		return "", err
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(signature), nil
}

// newUUID returns a random UUID of version 4.
func newUUID() string {
	var b [16]byte
	rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// holds reports whether a request has a token: "Bearer X" and "token X", and the password of basic authentication as Git sends it.
func holds(r *http.Request, token string) bool {
	// Digests have one length, so that the time of comparing them says nothing of the token's.
	got, want := sha256.Sum256([]byte(bearer(r))), sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1
}

// bearer is the token of a request; "" if it has none.
func bearer(r *http.Request) string {
	kind, text, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if strings.EqualFold(kind, "basic") {
		_, text, _ = r.BasicAuth()
	}
	return strings.TrimSpace(text)
}

// signedURL returns an address that opens what is at path for a method, for a while. Its query is hexadecimal: clients of
// Azure's storage differ in how they send anything else.
func (d door) signedURL(method, path string) string {
	expires := strconv.FormatInt(time.Now().Add(addressLife).Unix(), 10)
	query := url.Values{"se": {expires}, "sig": {d.addressSignature(method, path, expires)}}
	return d.base + (&url.URL{Path: path}).EscapedPath() + "?" + query.Encode()
}

func (d door) addressSignature(method, path, expires string) string {
	sum, _ := d.tokens.mac([]byte("address\x00" + method + "\x00" + path + "\x00" + expires))
	return hex.EncodeToString(sum)
}

// isSigned reports whether a request's address is one of signedURL that still counts.
func (d door) isSigned(r *http.Request, method string) bool {
	query := r.URL.Query()
	expires, err := strconv.ParseInt(query.Get("se"), 10, 64)
	want := d.addressSignature(method, r.URL.Path, query.Get("se"))
	return hmac.Equal([]byte(query.Get("sig")), []byte(want)) && err == nil && time.Now().Unix() <= expires
}
