package s3

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/rungci/rung/manager/config"
)

const (
	// session is how long a role is assumed for, which is what roles allow if nobody changes that.
	session = time.Hour
	// enough is how long credentials that end still have to hold: what is signed with them ends with them.
	enough = 55 * time.Minute
	// patience bounds one request for credentials.
	patience = 10 * time.Second
)

// keys are the credentials of a store, which may end and be fetched again.
type keys struct {
	mu          sync.Mutex
	credentials *credentials.Credentials
}

func newKeys(p credentials.Provider) *keys { return &keys{credentials: credentials.New(p)} }

// get returns credentials that hold for a time, or for as long as they can.
func (k *keys) get(ctx context.Context, life time.Duration) (credentials.Value, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	asked := &credentials.CredContext{Context: ctx, Client: &http.Client{Timeout: patience}}
	v, err := k.credentials.GetWithContext(asked)
	if err == nil && !v.Expiration.IsZero() && time.Until(v.Expiration) < min(life, enough) {
		k.credentials.Expire()
		v, err = k.credentials.GetWithContext(asked)
	}
	switch {
	case err != nil:
		return v, err
	case v.AccessKeyID == "" || v.SecretAccessKey == "":
		return v, errors.New("there are no credentials: neither AccessKey and SecretKey, nor AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, nor a role that this machine has")
	}
	return v, nil
}

// base are the credentials of the configuration, or those of the machine: variables, the file of AWS's programs, or the role of an instance, a task
// or a pod.
func base(c config.CacheS3) (*keys, error) {
	given := c.ServerAddress != "" && c.AccessKey != "" && c.SecretKey != ""
	switch kind := strings.ToLower(c.AuthenticationType); kind {
	case "":
	case "iam":
		given = false
	case "access-key":
		given = true
		if c.AccessKey == "" || c.SecretKey == "" {
			return nil, errors.New(`AuthenticationType is "access-key", and AccessKey or SecretKey is missing`)
		}
	default:
		return nil, fmt.Errorf("AuthenticationType is %q; it can be iam or access-key", c.AuthenticationType)
	}
	switch {
	case given:
		return fixedKeys(credentials.Value{AccessKeyID: c.AccessKey, SecretAccessKey: c.SecretKey, SessionToken: c.SessionToken, SignerType: credentials.SignatureV4}), nil
	case os.Getenv("AWS_ACCESS_KEY_ID") != "":
		return newKeys(&credentials.EnvAWS{}), nil
	case hasFile():
		return newKeys(&credentials.FileAWSCredentials{}), nil
	}
	return newKeys(&credentials.IAM{Region: c.BucketLocation}), nil
}

// hasFile reports whether there is a file with credentials.
func hasFile() bool {
	name := os.Getenv("AWS_SHARED_CREDENTIALS_FILE")
	if name == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return false
		}
		name = filepath.Join(home, ".aws", "credentials")
	}
	_, err := os.Stat(name)
	return err == nil
}

// role is a provider of the credentials of a role.
type role struct {
	credentials.Expiry

	base          *keys
	arn, endpoint string
	region        string
}

// assumed are the credentials of a role that other credentials may assume.
func assumed(base *keys, arn, region string) *role {
	region = cmp.Or(region, os.Getenv("AWS_REGION"), defaultRegion)
	domain := "amazonaws.com"
	if strings.HasPrefix(region, "cn-") {
		domain = "amazonaws.com.cn"
	}
	endpoint := cmp.Or(os.Getenv("AWS_ENDPOINT_URL_STS"), os.Getenv("AWS_ENDPOINT_URL"), "https://sts."+region+"."+domain)
	return &role{base: base, arn: arn, endpoint: endpoint, region: region}
}

// RetrieveWithCredContext implements credentials.Provider.
func (r *role) RetrieveWithCredContext(asked *credentials.CredContext) (credentials.Value, error) {
	ctx := context.Background()
	if asked != nil && asked.Context != nil {
		ctx = asked.Context
	}
	own, err := r.base.get(ctx, patience)
	if err != nil {
		return credentials.Value{}, err
	}
	sts := &credentials.STSAssumeRole{STSEndpoint: r.endpoint, Options: credentials.STSAssumeRoleOptions{
		AccessKey: own.AccessKeyID, SecretKey: own.SecretAccessKey, SessionToken: own.SessionToken, Location: r.region,
		DurationSeconds: int(session.Seconds()), RoleARN: r.arn, RoleSessionName: "rung-cache",
	}}
	v, err := sts.RetrieveWithCredContext(asked)
	if err != nil {
		return v, fmt.Errorf("assuming the role %s: %w", r.arn, err)
	}
	r.SetExpiration(v.Expiration, credentials.DefaultExpiryWindow)
	return v, nil
}

// Retrieve implements credentials.Provider.
func (r *role) Retrieve() (credentials.Value, error) { return r.RetrieveWithCredContext(nil) }
