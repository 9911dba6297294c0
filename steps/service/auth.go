package service

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/tap"
)

const (
	// MinToken is how long a token must be, in bytes.
	MinToken = 16
	// tokenHeader brings the token along, as "Bearer TOKEN".
	tokenHeader = "authorization"
	tokenScheme = "bearer "
)

// Token is a secret that clients show with every call. Only its digest is kept.
type Token struct{ digest [sha256.Size]byte }

// NewToken reads a token; space around it is left out.
func NewToken(text string) (*Token, error) {
	text = strings.TrimSpace(text)
	if len(text) < MinToken {
		return nil, fmt.Errorf("a token must have at least %d characters; `openssl rand -hex 32` makes a good one", MinToken)
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, fmt.Errorf("a token must be one line of printable ASCII characters without spaces")
	}
	return &Token{sha256.Sum256([]byte(text))}, nil
}

// check compares the token of a call, in a time that does not depend on it.
func (t *Token) check(md metadata.MD) error {
	given := md.Get(tokenHeader)
	if len(given) == 0 {
		return apiErrorf(codes.Unauthenticated, "the call has no token: send it as the metadata authorization: Bearer TOKEN", nil)
	}
	text := given[0]
	if len(text) < len(tokenScheme) || !strings.EqualFold(text[:len(tokenScheme)], tokenScheme) {
		return apiErrorf(codes.Unauthenticated, "the metadata authorization does not begin with Bearer", nil)
	}
	digest := sha256.Sum256([]byte(text[len(tokenScheme):]))
	if len(given) > 1 || subtle.ConstantTimeCompare(digest[:], t.digest[:]) != 1 {
		return apiErrorf(codes.Unauthenticated, "the token is wrong", nil)
	}
	return nil
}

// tap lets a call through or not, before anything of its request is read: whoever shows no token makes the server hold nothing.
func (a Access) tap(ctx context.Context, info *tap.Info) (context.Context, error) {
	if a.Token == nil || strings.HasPrefix(info.FullMethodName, "/"+healthv1.Health_ServiceDesc.ServiceName+"/") {
		return ctx, nil
	}
	return ctx, a.Token.check(info.Header)
}
