package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"slices"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/encrypt"

	"github.com/rungci/rung/internal/sharedstate"
	"github.com/rungci/rung/manager/config"
)

// MaxObject bounds an object that is read, in bytes.
const MaxObject = 1 << 30

// Objects are those of a bucket below a prefix, for shared state. The store must know If-None-Match and If-Match of PUT.
type Objects struct {
	store  *Store
	prefix string
	seal   encrypt.ServerSide // nil: as the bucket says
}

// NewObjects reads the configuration. It makes no request.
func NewObjects(c config.CacheS3, prefix string) (*Objects, error) {
	s, err := New(c)
	if err != nil {
		return nil, err
	}
	o := &Objects{store: s, prefix: strings.Trim(prefix, "/") + "/"}
	if o.prefix == "/" {
		o.prefix = ""
	}
	switch s.encrypted["X-Amz-Server-Side-Encryption"] {
	case "AES256":
		o.seal = encrypt.NewSSE()
	case "aws:kms":
		o.seal, err = encrypt.NewSSEKMS(c.ServerSideEncryptionKeyID, nil)
	case "aws:kms:dsse":
		return nil, errors.New("ServerSideEncryption = \"DSSE-KMS\" is for caches; use KMS for the shared state, which is sealed by its own key as well")
	}
	return o, err
}

// client is one with credentials that hold for a call.
func (o *Objects) client(ctx context.Context) (*minio.Core, error) {
	value, err := o.store.put.get(ctx, patience)
	if err != nil {
		return nil, err
	}
	fixed := fixedKeys(value)
	client, err := o.store.client(fixed, o.store.regionOf(ctx, fixed))
	if err != nil {
		return nil, err
	}
	return &minio.Core{Client: client}, nil
}

// Get implements sharedstate.Objects.
func (o *Objects) Get(ctx context.Context, name string) ([]byte, string, error) {
	client, err := o.client(ctx)
	if err != nil {
		return nil, "", err
	}
	body, info, _, err := client.GetObject(ctx, o.store.bucket, o.prefix+name, minio.GetObjectOptions{})
	if err != nil {
		return nil, "", o.wrong("reading", name, err)
	}
	defer body.Close()
	content, err := io.ReadAll(io.LimitReader(body, MaxObject))
	if err == nil && int64(len(content)) != info.Size {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, "", o.wrong("reading", name, err)
	}
	return content, info.ETag, nil
}

// Put implements sharedstate.Objects.
func (o *Objects) Put(ctx context.Context, name string, content []byte, when sharedstate.Condition) (string, error) {
	client, err := o.client(ctx)
	if err != nil {
		return "", err
	}
	with := minio.PutObjectOptions{ContentType: "application/octet-stream", DisableMultipart: true, ServerSideEncryption: o.seal}
	if when.Absent {
		with.SetMatchETagExcept("*")
	}
	if when.Tag != "" {
		with.SetMatchETag(when.Tag)
	}
	info, err := client.Client.PutObject(ctx, o.store.bucket, o.prefix+name, bytes.NewReader(content), int64(len(content)), with)
	if err != nil {
		return "", o.wrong("writing", name, err)
	}
	return info.ETag, nil
}

// List implements sharedstate.Objects.
func (o *Objects) List(ctx context.Context, prefix string) (names []string, err error) {
	client, err := o.client(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for info := range client.Client.ListObjects(ctx, o.store.bucket, minio.ListObjectsOptions{Prefix: o.prefix + prefix, Recursive: true}) {
		if info.Err != nil {
			return nil, o.wrong("listing", prefix, info.Err)
		}
		names = append(names, strings.TrimPrefix(info.Key, o.prefix))
	}
	slices.Sort(names)
	return names, context.Cause(ctx)
}

// Delete implements sharedstate.Objects.
func (o *Objects) Delete(ctx context.Context, name string) error {
	client, err := o.client(ctx)
	if err != nil {
		return err
	}
	if err := client.Client.RemoveObject(ctx, o.store.bucket, o.prefix+name, minio.RemoveObjectOptions{}); err != nil {
		return o.wrong("removing", name, err)
	}
	return nil
}

// wrong is an error of the store about an object.
func (o *Objects) wrong(doing, name string, err error) error {
	answer := minio.ToErrorResponse(err)
	switch {
	case answer.StatusCode == http.StatusPreconditionFailed:
		err = fmt.Errorf("%w: %w", sharedstate.ErrCondition, err)
	case answer.Code == minio.NoSuchKey:
		err = fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	return fmt.Errorf("%s s3://%s/%s%s: %w", doing, o.store.bucket, o.prefix, name, err)
}
