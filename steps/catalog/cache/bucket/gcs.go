package bucket

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// What the signature's texts of Google are made of.
const (
	googAlgorithm = "GOOG4-RSA-SHA256"
	googEndpoint  = "https://storage.googleapis.com"
	googLife      = time.Hour // how long a signed address holds: a large archive has to begin in it, not to end
	unsigned      = "UNSIGNED-PAYLOAD"
)

func (b *Bucket) openGCS(u *url.URL, getenv func(string) string) error {
	o, err := options(u, "endpoint")
	if err != nil {
		return err
	}
	base, err := endpoint(o["endpoint"], googEndpoint)
	if err != nil {
		return err
	}
	base.Path += "/" + u.Host
	b.base, b.limit = base, MaxGCS
	if text := getenv("GOOGLE_APPLICATION_CREDENTIALS_JSON"); text != "" {
		account, err := readAccount(text)
		if err != nil {
			return fmt.Errorf("reading GOOGLE_APPLICATION_CREDENTIALS_JSON: %w", err)
		}
		b.signer, b.meta = account, "X-Goog-Meta-"
		return nil
	}
	s, err := awsKeys(getenv)
	if err != nil {
		return errors.New("neither GOOGLE_APPLICATION_CREDENTIALS_JSON, nor a key for interoperability as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, is given")
	}
	s.region, s.token = "auto", ""
	b.signer, b.meta = s, "X-Amz-Meta-"
	return nil
}

// account is a service account of Google. It signs addresses.
type account struct {
	email string
	key   *rsa.PrivateKey
}

// readAccount reads the key file of a service account. Its errors hold nothing of the text.
func readAccount(text string) (*account, error) {
	var file struct {
		Type  string `json:"type"`
		Email string `json:"client_email"`
		Key   string `json:"private_key"`
	}
	if err := json.Unmarshal([]byte(text), &file); err != nil {
		return nil, errors.New("it is not JSON; give the text of the key file, not its path")
	}
	if file.Type != "service_account" || file.Email == "" || file.Key == "" {
		return nil, errors.New("it is not the key file of a service account: type, client_email or private_key is missing")
	}
	block, _ := pem.Decode([]byte(file.Key))
	if block == nil {
		return nil, errors.New("its private_key is not in PEM form")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		if parsed, err = x509.ParsePKCS1PrivateKey(block.Bytes); err != nil {
			return nil, errors.New("its private_key is not an RSA key that can be read")
		}
	}
	key, ok := parsed.(*rsa.PrivateKey)
	if !ok {
		return nil, errors.New("its private_key is not of RSA")
	}
	return &account{email: file.Email, key: key}, nil
}

func (a *account) sign(r *http.Request, _ string, now time.Time) error {
	text := a.prepare(r, now, googLife)
	sum := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(rand.Reader, a.key, crypto.SHA256, sum[:])
	if err != nil {
		return errors.New("signing with the key of the service account failed")
	}
	r.URL.RawQuery += "&X-Goog-Signature=" + hex.EncodeToString(signature)
	return nil
}

// prepare sets all of the query but the signature, and returns the text to sign.
func (a *account) prepare(r *http.Request, now time.Time, life time.Duration) string {
	headers := map[string][]string{"Host": {r.URL.Host}}
	for name, values := range r.Header {
		headers[name] = values
	}
	lines, names := canonicalHeaders(headers)
	scope := now.Format(dateOnly) + "/auto/storage/goog4_request"
	query := r.URL.Query()
	query.Set("X-Goog-Algorithm", googAlgorithm)
	query.Set("X-Goog-Credential", a.email+"/"+scope)
	query.Set("X-Goog-Date", now.Format(amzTime))
	query.Set("X-Goog-Expires", strconv.Itoa(int(life.Seconds())))
	query.Set("X-Goog-SignedHeaders", names)
	r.URL.RawQuery = canonicalQuery(query)
	request := strings.Join([]string{r.Method, encodePath(r.URL.Path), r.URL.RawQuery, lines, names, unsigned}, "\n")
	return strings.Join([]string{googAlgorithm, now.Format(amzTime), scope, hexSHA256(request)}, "\n")
}
