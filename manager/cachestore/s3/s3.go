// Package s3 signs addresses of objects in Amazon's S3, and in stores that speak it.
package s3

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/rungci/rung/manager/cachestore"
	"github.com/rungci/rung/manager/config"
)

const (
	amazon        = "s3.amazonaws.com"
	accelerated   = "s3-accelerate.amazonaws.com"
	acceleratedV6 = "s3-accelerate.dualstack.amazonaws.com"
	// defaultRegion is that of a bucket whose region nobody says.
	defaultRegion = "us-east-1"
)

// Store signs addresses with one set of credentials for reading and one for writing, which may be the same.
type Store struct {
	bucket    string
	endpoint  string
	get, put  *keys
	options   func(region string) *minio.Options
	adjust    func(*minio.Client)
	encrypted map[string]string // headers of uploads

	mu     sync.Mutex
	region string // "" until it is known
}

// New reads the configuration. It makes no request.
func New(c config.CacheS3) (*Store, error) {
	if c.BucketName == "" {
		return nil, errors.New("BucketName is missing")
	}
	encrypted, err := encryption(c)
	if err != nil {
		return nil, err
	}
	base, err := base(c)
	if err != nil {
		return nil, err
	}
	s := &Store{bucket: c.BucketName, endpoint: cmp.Or(c.ServerAddress, amazon), region: c.BucketLocation, encrypted: encrypted}
	s.get, s.put = base, base
	if c.RoleARN != "" {
		s.get = newKeys(assumed(base, c.RoleARN, c.BucketLocation))
		s.put = s.get
	} else if c.UploadRoleARN != "" {
		s.put = newKeys(assumed(base, c.UploadRoleARN, c.BucketLocation))
	}
	accelerate := accelerated
	if c.DualStack == nil || *c.DualStack {
		accelerate = acceleratedV6
	}
	if strings.HasPrefix(s.endpoint, "s3-accelerate.") { // as GitLab's runner takes it
		accelerate, s.endpoint, c.Accelerate = s.endpoint, amazon, true
	}
	s.options = func(region string) *minio.Options {
		return &minio.Options{Secure: !c.Insecure, Region: region, BucketLookup: lookup(c.PathStyle)}
	}
	s.adjust = func(client *minio.Client) {
		client.SetS3EnableDualstack(c.DualStack == nil || *c.DualStack)
		if c.Accelerate {
			client.SetS3TransferAccelerate(accelerate)
		}
	}
	if _, err := s.client(base, ""); err != nil {
		return nil, err
	}
	return s, nil
}

// lookup says where the name of the bucket is in an address. If nobody says, it is in the path, but for Amazon and Google.
func lookup(inPath *bool) minio.BucketLookupType {
	switch {
	case inPath == nil:
		return minio.BucketLookupAuto
	case *inPath:
		return minio.BucketLookupPath
	}
	return minio.BucketLookupDNS
}

// encryption are the headers that tell the store how to encrypt.
func encryption(c config.CacheS3) (map[string]string, error) {
	kind, ok := map[string]string{
		"": "", "S3": "AES256", "AES256": "AES256", "KMS": "aws:kms", "AWS:KMS": "aws:kms", "DSSE-KMS": "aws:kms:dsse", "AWS:KMS:DSSE": "aws:kms:dsse",
	}[strings.ToUpper(c.ServerSideEncryption)]
	switch {
	case !ok:
		return nil, fmt.Errorf("ServerSideEncryption is %q; it can be S3, KMS or DSSE-KMS", c.ServerSideEncryption)
	case kind == "":
		return nil, nil
	}
	headers := map[string]string{"X-Amz-Server-Side-Encryption": kind}
	if c.ServerSideEncryptionKeyID != "" && kind != "AES256" {
		headers["X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id"] = c.ServerSideEncryptionKeyID
	}
	return headers, nil
}

// Get implements cachestore.Signer.
func (s *Store) Get(ctx context.Context, object string, life time.Duration) (cachestore.Address, error) {
	return s.sign(ctx, s.get, http.MethodGet, object, nil, life)
}

// Put implements cachestore.Signer.
func (s *Store) Put(ctx context.Context, object string, meta cachestore.Metadata, life time.Duration) (cachestore.Address, error) {
	headers := meta.Headers("X-Amz-Meta-")
	for name, text := range s.encrypted {
		headers[name] = text
	}
	return s.sign(ctx, s.put, http.MethodPut, object, headers, life)
}

func (s *Store) sign(ctx context.Context, with *keys, method, object string, headers map[string]string, life time.Duration) (cachestore.Address, error) {
	value, err := with.get(ctx, life)
	if err != nil {
		return cachestore.Address{}, err
	}
	fixed := fixedKeys(value)
	client, err := s.client(fixed, s.regionOf(ctx, fixed))
	if err != nil {
		return cachestore.Address{}, err
	}
	signed := http.Header{}
	for name, text := range headers {
		signed.Set(textproto.CanonicalMIMEHeaderKey(name), text)
	}
	u, err := client.PresignHeader(ctx, method, s.bucket, object, life, nil, signed)
	if err != nil {
		return cachestore.Address{}, err
	}
	return cachestore.Address{URL: u.String(), Headers: headers}, nil
}

// regionOf finds out where the bucket is. A region that is found is remembered; one that is not is asked for again the next time.
func (s *Store) regionOf(ctx context.Context, with *keys) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.region != "" {
		return s.region
	}
	client, err := s.client(with, "")
	if err != nil {
		return defaultRegion
	}
	region, err := client.GetBucketLocation(ctx, s.bucket)
	if err != nil {
		return defaultRegion
	}
	s.region = region
	return region
}

func (s *Store) client(with *keys, region string) (*minio.Client, error) {
	o := s.options(region)
	o.Creds = with.credentials
	client, err := minio.New(s.endpoint, o)
	if err != nil {
		return nil, fmt.Errorf("ServerAddress %q cannot be used: %w; write it as HOST or HOST:PORT", s.endpoint, err)
	}
	s.adjust(client)
	return client, nil
}

func fixedKeys(v credentials.Value) *keys {
	return newKeys(&credentials.Static{Value: v})
}
