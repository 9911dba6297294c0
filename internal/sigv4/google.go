package sigv4

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
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	// GoogleEndpoint is where Google Cloud Storage is.
	GoogleEndpoint = "https://storage.googleapis.com"

	// Formats of the times in signatures.
	timestamp = "20060102T150405Z"
	day       = "20060102"

	googleAlgorithm = "GOOG4-RSA-SHA256"
	unsignedPayload = "UNSIGNED-PAYLOAD"
)

// Account is a service account of Google. It signs texts.
type Account struct {
	Email string
	key   *rsa.PrivateKey
}

// ReadAccount reads the key file of a service account. Its errors hold nothing of the text.
func ReadAccount(text string) (*Account, error) {
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
	return NewAccount(file.Email, file.Key)
}

// NewAccount makes an account of its name and its private key in PEM form. Its errors hold nothing of the key.
func NewAccount(email, key string) (*Account, error) {
	block, _ := pem.Decode([]byte(key))
	if block == nil {
		return nil, errors.New("its private_key is not in PEM form")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		if parsed, err = x509.ParsePKCS1PrivateKey(block.Bytes); err != nil {
			return nil, errors.New("its private_key is not an RSA key that can be read")
		}
	}
	private, ok := parsed.(*rsa.PrivateKey)
	if !ok {
		return nil, errors.New("its private_key is not of RSA")
	}
	return &Account{Email: email, key: private}, nil
}

// Sign signs a text with RSA and SHA-256.
func (a *Account) Sign(text []byte) ([]byte, error) {
	sum := sha256.Sum256(text)
	signature, err := rsa.SignPKCS1v15(rand.Reader, a.key, crypto.SHA256, sum[:])
	if err != nil {
		return nil, errors.New("signing with the key of the service account failed")
	}
	return signature, nil
}

// GoogleText sets all of the query of a signed address of Google's but the signature, and returns the text to sign. All headers of the request are
// signed. The address holds for life, from now on.
func GoogleText(r *http.Request, email string, now time.Time, life time.Duration) string {
	headers := map[string][]string{"Host": {r.URL.Host}}
	for name, values := range r.Header {
		headers[name] = values
	}
	lines, names := Headers(headers)
	scope := now.Format(day) + "/auto/storage/goog4_request"
	query := r.URL.Query()
	query.Set("X-Goog-Algorithm", googleAlgorithm)
	query.Set("X-Goog-Credential", email+"/"+scope)
	query.Set("X-Goog-Date", now.Format(timestamp))
	query.Set("X-Goog-Expires", strconv.Itoa(int(life.Seconds())))
	query.Set("X-Goog-SignedHeaders", names)
	r.URL.RawQuery = Query(query)
	request := strings.Join([]string{r.Method, EncodePath(r.URL.Path), r.URL.RawQuery, lines, names, unsignedPayload}, "\n")
	return strings.Join([]string{googleAlgorithm, now.Format(timestamp), scope, HexSHA256(request)}, "\n")
}

// GoogleSigned adds the signature of the text of GoogleText to the address.
func GoogleSigned(r *http.Request, signature []byte) {
	r.URL.RawQuery += "&X-Goog-Signature=" + hex.EncodeToString(signature)
}
