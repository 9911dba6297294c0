package bucket

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/rungci/rung/internal/sigv4"
)

// What the signature's texts of Amazon are made of.
const (
	amzAlgorithm = "AWS4-HMAC-SHA256"
	amzTime      = "20060102T150405Z"
	dateOnly     = "20060102"
	defaultAWS   = "us-east-1"
)

func (b *Bucket) openS3(u *url.URL, getenv func(string) string) error {
	o, err := options(u, "region", "endpoint", "path_style")
	if err != nil {
		return err
	}
	region := o["region"]
	if region == "" {
		region = getenv("AWS_REGION")
	}
	if region == "" {
		region = defaultAWS
	}
	if strings.Trim(region, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return fmt.Errorf("%q is not a region; regions are like eu-central-1", region)
	}
	base, err := endpoint(o["endpoint"], "https://s3."+region+"."+amazonDomain(region))
	if err != nil {
		return err
	}
	// The certificates of Amazon are for one name before the host, so a bucket with dots is in the path.
	inPath, err := parseBool("path_style", o["path_style"], o["endpoint"] != "" || strings.Contains(u.Host, "."))
	if err != nil {
		return err
	}
	if inPath {
		base.Path += "/" + u.Host
	} else {
		base.Host = u.Host + "." + base.Host
	}
	s, err := awsKeys(getenv)
	if err != nil {
		return err
	}
	s.region = region
	b.base, b.signer, b.meta, b.limit = base, s, "X-Amz-Meta-", MaxS3
	return nil
}

// amazonDomain is where the services of a region are.
func amazonDomain(region string) string {
	if strings.HasPrefix(region, "cn-") {
		return "amazonaws.com.cn"
	}
	return "amazonaws.com"
}

// sigV4 signs as Amazon's Signature Version 4 wants it, in headers.
type sigV4 struct {
	key, secret, token string
	region             string
}

// awsKeys returns a signer with the keys of the environment.
func awsKeys(getenv func(string) string) (*sigV4, error) {
	s := &sigV4{key: getenv("AWS_ACCESS_KEY_ID"), secret: getenv("AWS_SECRET_ACCESS_KEY"), token: getenv("AWS_SESSION_TOKEN")}
	if s.key == "" || s.secret == "" {
		return nil, errors.New("the secrets AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not given")
	}
	return s, nil
}

func (s *sigV4) sign(r *http.Request, digest string, now time.Time) error {
	r.Header.Set("X-Amz-Date", now.Format(amzTime))
	r.Header.Set("X-Amz-Content-Sha256", digest)
	if s.token != "" {
		r.Header.Set("X-Amz-Security-Token", s.token)
	}
	request, names := s.canonical(r, digest)
	scope := now.Format(dateOnly) + "/" + s.region + "/s3/aws4_request"
	text := strings.Join([]string{amzAlgorithm, now.Format(amzTime), scope, sigv4.HexSHA256(request)}, "\n")
	key := []byte("AWS4" + s.secret)
	for part := range strings.SplitSeq(scope, "/") {
		key = hmacSHA256(key, part)
	}
	r.Header.Set("Authorization", fmt.Sprintf("%s Credential=%s/%s, SignedHeaders=%s, Signature=%s",
		amzAlgorithm, s.key, scope, names, hex.EncodeToString(hmacSHA256(key, text))))
	return nil
}

// canonical writes the request as it is signed: all its headers are.
func (s *sigV4) canonical(r *http.Request, digest string) (text, names string) {
	headers := map[string][]string{"Host": {r.URL.Host}}
	for name, values := range r.Header {
		if name != "Authorization" && name != "User-Agent" {
			headers[name] = values
		}
	}
	lines, names := sigv4.Headers(headers)
	return strings.Join([]string{r.Method, sigv4.EncodePath(r.URL.Path), sigv4.Query(r.URL.Query()), lines, names, digest}, "\n"), names
}

// emptySHA256 is the digest of no content.
const emptySHA256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

func hmacSHA256(key []byte, text string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}
