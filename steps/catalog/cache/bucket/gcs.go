package bucket

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/rungci/rung/internal/sigv4"
)

// googLife is how long a signed address holds: a large archive has to begin in it, not to end.
const googLife = time.Hour

func (b *Bucket) openGCS(u *url.URL, getenv func(string) string) error {
	o, err := options(u, "endpoint")
	if err != nil {
		return err
	}
	base, err := endpoint(o["endpoint"], sigv4.GoogleEndpoint)
	if err != nil {
		return err
	}
	base.Path += "/" + u.Host
	b.base, b.limit = base, MaxGCS
	if text := getenv("GOOGLE_APPLICATION_CREDENTIALS_JSON"); text != "" {
		robot, err := sigv4.ReadAccount(text)
		if err != nil {
			return fmt.Errorf("reading GOOGLE_APPLICATION_CREDENTIALS_JSON: %w", err)
		}
		b.signer, b.meta = account{robot}, "X-Goog-Meta-"
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
type account struct{ *sigv4.Account }

func (a account) sign(r *http.Request, _ string, now time.Time) error {
	signature, err := a.Sign([]byte(sigv4.GoogleText(r, a.Email, now, googLife)))
	if err != nil {
		return err
	}
	sigv4.GoogleSigned(r, signature)
	return nil
}
