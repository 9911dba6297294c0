// Package buckettest provides object stores for tests. They are strict: a request whose signature is not the one that the store computes
// itself is refused, and so is content that is not what was signed.
package buckettest

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
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// Object is what a store holds under a path.
type Object struct {
	Content  []byte
	Metadata http.Header
}

// Store is a running store. Its fields may be read and changed between requests.
type Store struct {
	URL string
	// Fail answers a request in the store's place; nil, and a false answer, let the store do it.
	Fail func(w http.ResponseWriter, r *http.Request) bool

	mu       sync.Mutex
	objects  map[string]Object // by the path of the request, decoded
	requests []string          // methods and paths of all that were accepted
	meta     string
	verify   func(r *http.Request, content []byte) error
}

// Objects returns what is there.
func (s *Store) Objects() map[string]Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]Object{}
	for path, o := range s.objects {
		out[path] = o
	}
	return out
}

// Put makes an object.
func (s *Store) Put(path string, content []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects[path] = Object{Content: content, Metadata: http.Header{}}
}

// Requests returns methods and paths of all accepted requests so far, and forgets them.
func (s *Store) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.requests
	s.requests = nil
	return out
}

// New starts a store whose requests a function verifies. meta is before the names of metadata, as headers have it.
func New(t *testing.T, meta string, verify func(r *http.Request, content []byte) error) *Store {
	t.Helper()
	s := &Store{objects: map[string]Object{}, meta: meta, verify: verify}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.URL = server.URL
	return s
}

func (s *Store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.Fail != nil && s.Fail(w, r) {
		return
	}
	content, err := io.ReadAll(r.Body)
	if err == nil && r.ContentLength < 0 {
		err = fmt.Errorf("the length of the content is not announced")
	}
	if err == nil {
		err = s.verify(r, content)
	}
	if err != nil {
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, "<Error><Code>SignatureDoesNotMatch</Code><Message>%s</Message></Error>", err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r.Method+" "+r.URL.Path)
	object, ok := s.objects[r.URL.Path]
	switch {
	case r.Method == http.MethodPut:
		metadata := http.Header{}
		for name, values := range r.Header {
			if strings.HasPrefix(name, s.meta) {
				metadata[name] = values
			}
		}
		s.objects[r.URL.Path] = Object{Content: content, Metadata: metadata}
		w.WriteHeader(http.StatusCreated)
	case !ok:
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, "<Error><Code>NoSuchKey</Code><Message>There is no such key.</Message></Error>")
	default:
		for name, values := range object.Metadata {
			w.Header()[name] = values
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(object.Content)))
		if r.Method == http.MethodGet {
			_, _ = w.Write(object.Content)
		}
	}
}

// Keys of the stores that speak S3.
const (
	AccessKey    = "AKIDEXAMPLE"
	SecretKey    = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
	SessionToken = "a/session+token=="
)

// S3 starts a store that recomputes signatures with Amazon's own signer, for a region. With session, requests need SessionToken.
func S3(t *testing.T, region string, session bool) *Store {
	t.Helper()
	return New(t, "X-Amz-Meta-", func(r *http.Request, content []byte) error { return verifyS3(r, content, region, session) })
}

func verifyS3(r *http.Request, content []byte, region string, session bool) error {
	if r.URL.Query().Get("X-Amz-Signature") != "" {
		return verifySignedAddress(r, region, session)
	}
	given := r.Header.Get("Authorization")
	_, list, ok := strings.Cut(given, "SignedHeaders=")
	list, _, found := strings.Cut(list, ",")
	if !ok || !found {
		return fmt.Errorf("there is no signature")
	}
	sum := sha256.Sum256(content)
	digest := hex.EncodeToString(sum[:])
	if r.Header.Get("X-Amz-Content-Sha256") != digest {
		return fmt.Errorf("the content is not what was signed")
	}
	for name := range r.Header {
		if strings.HasPrefix(name, "X-Amz-") && !strings.Contains(";"+list+";", ";"+strings.ToLower(name)+";") {
			return fmt.Errorf("%s is not signed", name)
		}
	}
	again, err := http.NewRequest(r.Method, "http://"+r.Host+r.RequestURI, nil)
	if err != nil {
		return err
	}
	for name := range strings.SplitSeq(list, ";") {
		if name != "host" {
			again.Header[http.CanonicalHeaderKey(name)] = r.Header.Values(name)
		}
	}
	at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	if err != nil {
		return err
	}
	credentials := aws.Credentials{AccessKeyID: AccessKey, SecretAccessKey: SecretKey}
	if session {
		credentials.SessionToken = SessionToken
	}
	again.Header.Del("X-Amz-Security-Token")
	err = v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true }).SignHTTP(r.Context(), credentials, again, digest, "s3", region, at)
	if err != nil {
		return err
	}
	if given != again.Header.Get("Authorization") {
		return fmt.Errorf("the signature is not %s", again.Header.Get("Authorization"))
	}
	return nil
}

// verifySignedAddress recomputes the signature of an address (presigned URL).
func verifySignedAddress(r *http.Request, region string, session bool) error {
	query := r.URL.Query()
	at, err := time.Parse("20060102T150405Z", query.Get("X-Amz-Date"))
	life, wrong := strconv.Atoi(query.Get("X-Amz-Expires"))
	if err = errors.Join(err, wrong); err != nil {
		return err
	}
	if age := time.Since(at); age < -time.Minute || age > time.Duration(life)*time.Second {
		return fmt.Errorf("the signature has expired")
	}
	credentials := aws.Credentials{AccessKeyID: AccessKey, SecretAccessKey: SecretKey}
	if session {
		credentials.SessionToken = SessionToken
	}
	list := query.Get("X-Amz-SignedHeaders")
	again, err := http.NewRequest(r.Method, "http://"+r.Host+r.URL.EscapedPath()+"?X-Amz-Expires="+query.Get("X-Amz-Expires"), nil)
	if err != nil {
		return err
	}
	for name := range strings.SplitSeq(list, ";") {
		if name != "host" {
			again.Header[http.CanonicalHeaderKey(name)] = r.Header.Values(name)
		}
	}
	for name := range r.Header {
		if strings.HasPrefix(name, "X-Amz-") && !strings.Contains(";"+list+";", ";"+strings.ToLower(name)+";") {
			return fmt.Errorf("%s is not signed", name)
		}
	}
	signer := v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping, o.DisableHeaderHoisting = true, true })
	signed, _, err := signer.PresignHTTP(r.Context(), credentials, again, "UNSIGNED-PAYLOAD", "s3", region, at)
	if err != nil {
		return err
	}
	want, err := url.Parse(signed)
	if err != nil {
		return err
	}
	if got, want := query.Encode(), want.Query().Encode(); got != want {
		return fmt.Errorf("the signature is not that of %s", want)
	}
	return nil
}

// Account makes a service account of Google: the text of its key file, and its public key.
func Account(t *testing.T) (file string, key *rsa.PublicKey) {
	t.Helper()
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string]string{
		"type": "service_account", "client_email": "robot@project.iam.gserviceaccount.com",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(text), &private.PublicKey
}

// GCS starts a store that verifies signed addresses with a key.
func GCS(t *testing.T, key *rsa.PublicKey) *Store {
	t.Helper()
	return New(t, "X-Goog-Meta-", func(r *http.Request, _ []byte) error { return verifyGCS(r, key) })
}

func verifyGCS(r *http.Request, key *rsa.PublicKey) error {
	text, last, ok := strings.Cut(r.URL.RawQuery, "&X-Goog-Signature=")
	signature, err := hex.DecodeString(last)
	if !ok || err != nil {
		return fmt.Errorf("there is no signature")
	}
	query := r.URL.Query()
	at, err := time.Parse("20060102T150405Z", query.Get("X-Goog-Date"))
	if err != nil {
		return err
	}
	life, err := strconv.Atoi(query.Get("X-Goog-Expires"))
	if err != nil {
		return err
	}
	if age := time.Since(at); age < -time.Minute || age > time.Duration(life)*time.Second {
		return fmt.Errorf("the signature is of %v", at)
	}
	var headers strings.Builder
	names := query.Get("X-Goog-SignedHeaders")
	for name := range strings.SplitSeq(names, ";") {
		text := r.Header.Get(name)
		if name == "host" {
			text = r.Host
		}
		headers.WriteString(name + ":" + text + "\n")
	}
	for name := range r.Header {
		if strings.HasPrefix(name, "X-Goog-") && !strings.Contains(";"+names+";", ";"+strings.ToLower(name)+";") {
			return fmt.Errorf("%s is not signed", name)
		}
	}
	path, _, _ := strings.Cut(r.RequestURI, "?")
	canonical := sha256.Sum256([]byte(strings.Join([]string{r.Method, path, text, headers.String(), names, "UNSIGNED-PAYLOAD"}, "\n")))
	scope := strings.TrimPrefix(query.Get("X-Goog-Credential"), "robot@project.iam.gserviceaccount.com/")
	sum := sha256.Sum256([]byte("GOOG4-RSA-SHA256\n" + query.Get("X-Goog-Date") + "\n" + scope + "\n" + hex.EncodeToString(canonical[:])))
	return rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], signature)
}

// Azure starts a store that asks a function for the signature of a request, or for its shared access signature where that is not "".
func Azure(t *testing.T, sas string, sign func(r *http.Request) string) *Store {
	t.Helper()
	return New(t, "X-Ms-Meta-", func(r *http.Request, content []byte) error {
		switch {
		case r.Header.Get("X-Ms-Version") == "" || r.Header.Get("X-Ms-Date") == "":
			return fmt.Errorf("there is no version or no date")
		case r.Method == http.MethodPut && r.Header.Get("X-Ms-Blob-Type") != "BlockBlob":
			return fmt.Errorf("there is no kind of blob")
		case int64(len(content)) != r.ContentLength && r.Method == http.MethodPut:
			return fmt.Errorf("the content is cut short")
		case sas != "":
			want, _ := url.ParseQuery(sas)
			if r.URL.Query().Encode() != want.Encode() || r.Header.Get("Authorization") != "" {
				return fmt.Errorf("the shared access signature is another one")
			}
		case r.Header.Get("Authorization") != sign(r):
			return fmt.Errorf("the signature is not %s", sign(r))
		}
		return nil
	})
}
